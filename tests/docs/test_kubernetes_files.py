"""conf/kubernetes, read as the cluster would read it: no unknown key, everything named exists, and nothing is open."""
# ruff: noqa: N815  (the names are those of the API)

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field
from ruamel.yaml import YAML

from mgw.gateway.config import lint

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "conf" / "kubernetes").glob("*.yaml"))


class Strict(BaseModel):
    """A part of a manifest: a key that the API does not have is an error, as with ``--validate=strict``."""

    model_config = ConfigDict(extra="forbid", strict=True)


Labels = dict[str, str]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Quantity = Annotated[str, Field(pattern=r"^\d+(m|Ki|Mi|Gi|Ti)?$")]


class Metadata(Strict):
    name: Name
    labels: Labels = {}


class Configuration(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["ConfigMap"]
    metadata: Metadata
    data: dict[str, str]


class Secret(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["Secret"]
    metadata: Metadata
    type: Literal["Opaque"]
    stringData: dict[str, str]


class ServicePort(Strict):
    name: Name
    port: int
    targetPort: int | str


class ServiceSpec(Strict):
    clusterIP: Literal["None"] | None = None
    selector: Labels
    ports: list[ServicePort]


class Service(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["Service"]
    metadata: Metadata
    spec: ServiceSpec


class HttpGet(Strict):
    path: Annotated[str, Field(pattern="^/")]
    port: int | str


class Probe(Strict):
    httpGet: HttpGet
    periodSeconds: int = 10
    timeoutSeconds: int = 1
    failureThreshold: int = 3


class Variable(Strict):
    name: str
    value: str


class Port(Strict):
    name: Name
    containerPort: int


class Mount(Strict):
    name: Name
    mountPath: Annotated[str, Field(pattern="^/")]
    readOnly: bool = False


class Capabilities(Strict):
    drop: list[str]


class ContainerSecurity(Strict):
    allowPrivilegeEscalation: Literal[False]
    readOnlyRootFilesystem: Literal[True]
    capabilities: Capabilities


class Resources(Strict):
    requests: dict[Literal["cpu", "memory", "storage"], Quantity]
    limits: dict[Literal["cpu", "memory"], Quantity] = {}


class Container(Strict):
    name: Name
    image: Annotated[str, Field(pattern=r"^[\w./-]+:\d+\.\d+\.\d+$")]
    args: list[str]
    env: list[Variable]
    ports: list[Port]
    startupProbe: Probe
    livenessProbe: Probe
    readinessProbe: Probe
    resources: Resources
    securityContext: ContainerSecurity
    volumeMounts: list[Mount]


class Seccomp(Strict):
    type: Literal["RuntimeDefault"]


class PodSecurity(Strict):
    runAsNonRoot: Literal[True]
    runAsUser: Annotated[int, Field(gt=0)]
    runAsGroup: Annotated[int, Field(gt=0)]
    fsGroup: Annotated[int, Field(gt=0)]
    seccompProfile: Seccomp


class ConfigMapSource(Strict):
    name: Name


class SecretSource(Strict):
    secretName: Name
    defaultMode: int


class Volume(Strict):
    name: Name
    configMap: ConfigMapSource | None = None
    secret: SecretSource | None = None
    emptyDir: dict[str, str] | None = None


class PodSpec(Strict):
    automountServiceAccountToken: Literal[False]
    enableServiceLinks: Literal[False]
    terminationGracePeriodSeconds: int
    securityContext: PodSecurity
    containers: list[Container]
    volumes: list[Volume]


class LabelsOnly(Strict):
    labels: Labels


class Template(Strict):
    metadata: LabelsOnly
    spec: PodSpec


class Selector(Strict):
    matchLabels: Labels


class ClaimSpec(Strict):
    accessModes: list[Literal["ReadWriteOnce"]]
    resources: Resources


class Claim(Strict):
    metadata: Metadata
    spec: ClaimSpec


class SetSpec(Strict):
    serviceName: Name
    replicas: Literal[1]  # one process runs an agent
    selector: Selector
    template: Template
    volumeClaimTemplates: list[Claim]


class StatefulSet(Strict):
    apiVersion: Literal["apps/v1"]
    kind: Literal["StatefulSet"]
    metadata: Metadata
    spec: SetSpec


KINDS: dict[str, type[Strict]] = {
    "ConfigMap": Configuration,
    "Secret": Secret,
    "Service": Service,
    "StatefulSet": StatefulSet,
}


@pytest.fixture(params=FILES, ids=[path.name for path in FILES])
def objects(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The objects of a file by kind, checked."""
    return {each["kind"]: KINDS[each["kind"]].model_validate(each) for each in YAML(typ="safe").load_all(request.param)}


def test_there_is_one() -> None:
    assert FILES


def test_every_name_leads_to_something(objects: dict[str, Any]) -> None:
    spec = objects["StatefulSet"].spec
    pod = spec.template.spec
    labels = spec.template.metadata.labels
    assert spec.selector.matchLabels.items() <= labels.items()
    assert objects["Service"].spec.selector.items() <= labels.items()
    assert spec.serviceName == objects["Service"].metadata.name
    (container,) = pod.containers
    ports = {port.name for port in container.ports}
    for probe in (container.startupProbe, container.livenessProbe, container.readinessProbe):
        assert probe.httpGet.port in ports
    assert {port.targetPort for port in objects["Service"].spec.ports} <= ports
    volumes = {volume.name for volume in pod.volumes} | {claim.metadata.name for claim in spec.volumeClaimTemplates}
    assert {mount.name for mount in container.volumeMounts} == volumes
    for volume in pod.volumes:
        if volume.configMap is not None:
            assert volume.configMap.name == objects["ConfigMap"].metadata.name
        if volume.secret is not None:
            assert volume.secret.defaultMode == 0o440  # in decimal, because YAML 1.1 and 1.2 read 0440 differently
            assert volume.secret.secretName == objects["Secret"].metadata.name


def test_the_probes_ask_what_the_gateway_answers(objects: dict[str, Any]) -> None:
    (container,) = objects["StatefulSet"].spec.template.spec.containers
    assert container.startupProbe.httpGet.path == container.livenessProbe.httpGet.path == "/livez"
    assert container.readinessProbe.httpGet.path == "/readyz"
    page = (ROOT / "docs/reference/http.md").read_text("utf-8")
    assert "/livez" in page
    assert "/readyz" in page
    assert objects["StatefulSet"].spec.template.spec.terminationGracePeriodSeconds > 10  # --drain


def test_secrets_are_files_and_none_is_written_down(objects: dict[str, Any]) -> None:
    (container,) = objects["StatefulSet"].spec.template.spec.containers
    assert set(objects["Secret"].stringData.values()) == {""}
    mount = next(mount.mountPath for mount in container.volumeMounts if mount.name == "secrets")
    files = [each.value for each in container.env if each.name.endswith("_FILE")]
    assert {f"{mount}/{name}" for name in objects["Secret"].stringData} == set(files)


def test_the_configuration_is_right_and_listens_where_the_probes_ask(objects: dict[str, Any], tmp_path: Path) -> None:
    (container,) = objects["StatefulSet"].spec.template.spec.containers
    environ = {each.name: each.value for each in container.env}
    for name, value in environ.items():
        if name.endswith("_FILE"):
            (tmp_path / Path(value).name).write_text("c2VjcmV0\n")
            environ[name] = str(tmp_path / Path(value).name)
    folder = tmp_path / "etc"
    folder.mkdir()
    for name, text in objects["ConfigMap"].data.items():
        (folder / name).write_text(text)
    assert container.args == ["run", "--config-dir", "/etc/mgw"]
    assert [str(finding) for finding in lint.lint([folder], environ)] == []
    http = lint.settings_of([folder], environ).http
    assert http.listen == f"0.0.0.0:{container.ports[0].containerPort}"
    assert http.behind_proxy


def test_the_pod_runs_as_the_user_of_the_image(objects: dict[str, Any]) -> None:
    security = objects["StatefulSet"].spec.template.spec.securityContext
    assert f"USER {security.runAsUser}:{security.runAsGroup}\n" in (ROOT / "Dockerfile").read_text()
    (container,) = objects["StatefulSet"].spec.template.spec.containers
    assert container.securityContext.capabilities.drop == ["ALL"]
