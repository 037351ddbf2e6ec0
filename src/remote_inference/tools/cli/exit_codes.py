# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The program's exit codes, and what they mean: help and reference are made of these lists."""

EXIT_OK = 0
EXIT_NO = 1  # the verb did its work, and its answer is no
EXIT_USAGE = 2  # as argparse's
EXIT_INTERRUPTED = 130  # 128 + SIGINT
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE

MEANINGS = {
    EXIT_OK: "all is well",
    EXIT_NO: "the verb did its work, and its answer is no: its help says what that means",
    EXIT_USAGE: "arguments or files are wrong, a package is missing, or nobody answered; a line says what "
    "was found and expected",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C before the end",
    EXIT_BROKEN_PIPE: "the reader of the output is gone, as `head` when it has its lines",
}
_REFUSED = {EXIT_NO: "the robot refused; the line says why"}
_STOPPED = "ended by Ctrl-C or SIGTERM"
_NO_START = "a file or parameter is wrong"
_NO_MIDDLEWARE = "the middleware does not start, for example without a Zenoh router"
_SERVER = {
    EXIT_OK: _STOPPED,
    EXIT_NO: "the server met an internal error; its log says which",
    EXIT_USAGE: f"{_NO_START}, or another server has the name",
    3: _NO_MIDDLEWARE,
}
# What only some verbs have, or mean in a way of their own.
OF_VERB = {
    "demo": {EXIT_NO: "one of the demo's processes failed or did not answer; the end of its log is shown"},
    "serve": _SERVER,
    "robot": {
        EXIT_OK: _STOPPED,
        EXIT_NO: "the robot's node has given up (DEAD) or met an internal error; its log says which",
        EXIT_USAGE: _NO_START,
        3: f"{_NO_MIDDLEWARE}; or a freeze has cost the node a link, and a new one finds it again",
    },
    "server": _SERVER,
    **dict.fromkeys(("resume", "pause", "clear-stop", "takeover", "release", "reset"), _REFUSED),
    "run-task": {EXIT_OK: "the success topic said true", EXIT_NO: "the run ended otherwise, or was rejected"},
    "doctor": {EXIT_NO: "a finding is an error; warnings alone are none"},
    "check": {EXIT_NO: "a server would refuse a robot", EXIT_USAGE: "a file or a policy has a problem"},
    "verify": {
        EXIT_OK: "the bag is intact; with --repair, recovered or whole",
        EXIT_NO: "the bag has a problem: it is not whole, or not what was recorded",
        EXIT_USAGE: "there is no bag, nothing can be recovered, or the arguments are wrong",
    },
    "replay": {
        EXIT_NO: "something differs, a chunk could not be computed, or an error exceeds its bound",
        EXIT_USAGE: "it cannot be judged or, with --arm, the robot cannot be driven",
    },
    "hud": {EXIT_OK: _STOPPED},
    "evaluate": {EXIT_NO: "an episode was not played, or a requirement is not kept"},
    "rollouts": {EXIT_NO: "a rollout came out otherwise when it was repeated"},
    "weights": {EXIT_NO: "the server refused; the line says why"},
}


def meanings(verb: str) -> dict[int, str]:
    """Return what each exit code of a verb means, in order."""
    own = OF_VERB.get(verb, {})
    common = {code: text for code, text in MEANINGS.items() if code != EXIT_NO}
    return dict(sorted({**common, **own}.items()))
