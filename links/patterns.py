"""Whether a pattern of topics or routing keys takes in a name: words with wildcards, of AMQP 0-9-1 and of MQTT."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["amqp_covers", "mqtt_covers"]


def mqtt_covers(topic_filter: str, topic: str) -> bool:
    """Whether a topic filter (MQTT 5 §4.7: ``+`` one level, ``#`` all that follow) takes in a topic.

    What is behind ``$share/<group>/`` counts.
    """
    if topic_filter.startswith("$share/"):
        topic_filter = topic_filter.split("/", 2)[-1]
    wanted, levels = topic_filter.split("/"), topic.split("/")
    for at, word in enumerate(wanted):
        if word == "#":
            return True
        if at >= len(levels) or word not in {"+", levels[at]}:
            return False
    return len(wanted) == len(levels)


def amqp_covers(source: str, target: str) -> bool:
    """Whether a queue, or ``exchange/pattern`` as a source, gets what is sent to a queue, or ``exchange/key``.

    Without a key it is not known before a message is sent: only the pattern ``#`` takes in every one. Where bindings
    of others lead is not seen.
    """
    exchange, slash, pattern = source.partition("/")
    target_exchange, key_given, key = target.partition("/")
    if not slash:
        return source == target
    if exchange != target_exchange:
        return False
    return _words_match(pattern.split("."), key.split(".")) if key_given else pattern == "#"


def _words_match(pattern: Sequence[str], words: Sequence[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_words_match(pattern[1:], words[start:]) for start in range(len(words) + 1))
    return bool(words) and pattern[0] in {"*", words[0]} and _words_match(pattern[1:], words[1:])
