"""What is left of any web of grants when those without a way back to the owner are gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mgw.gateway.aq.grants import Grant, unfounded

WHO = st.sampled_from("OABCD")
WEBS = st.lists(st.tuples(WHO, WHO, st.booleans()), max_size=12).map(
    lambda edges: [Grant(number, *edge) for number, edge in enumerate(edges)]
)


def has_a_way_back(grant: Grant, web: list[Grant], seen: frozenset[str] = frozenset()) -> bool:
    """Whether the grantor got the option from somebody who got it, and so on, from the owner."""
    giver = grant.grantor_key
    if giver == "O":
        return True
    return giver not in seen and any(
        each.grantable and each.grantee_key == giver and has_a_way_back(each, web, seen | {giver}) for each in web
    )


@given(WEBS)
def test_a_grant_falls_exactly_when_no_way_leads_back_to_the_owner(web: list[Grant]) -> None:
    assert sorted(unfounded("O", web)) == [grant.id for grant in web if not has_a_way_back(grant, web)]


@given(WEBS, st.data())
def test_revoking_one_after_the_other_leaves_what_revoking_both_does(web: list[Grant], data: st.DataObject) -> None:
    def without(held: list[Grant], gone: set[int]) -> list[Grant]:
        left = [grant for grant in held if grant.id not in gone]
        fallen = set(unfounded("O", left))
        return [grant for grant in left if grant.id not in fallen]

    one, other = (data.draw(st.integers(0, 12)) for _ in range(2))
    assert without(without(web, {one}), {other}) == without(web, {one, other})
