"""Holds every command of the AWS CLI in the files that are named against botocore's descriptions of the services.

Is there such an operation or waiter, does it take these options, are those that it requires given?
"""

import json
import re
import sys
from pathlib import Path

import botocore.session
from botocore import xform_name

# What the CLI adds by itself, to every command or to those that answer in pages.
EVERYWHERE = {"region", "output", "query", "profile", "no-cli-pager", "max-items", "page-size", "starting-token"}
# Commands that are not an operation's: with the options that they take.
CUSTOM = {
    ("ecr", "get-login-password"): set(),
    ("logs", "tail"): {"since", "follow", "format", "filter-pattern"},
    ("s3", "rb"): {"force"},
}
NAMES = {"s3api": "s3"}
START = re.compile(r"(?<![\w./-])aws (?=[a-z])")


def words_of(text):
    """The words of the command at the beginning of the text, up to the end of the pipeline's part that it is."""
    words, word, index, quote, depth = [], "", 0, "", 0
    while index < len(text):
        char = text[index]
        if char == "\\" and text[index + 1 : index + 2] == "\n":
            char, index = " ", index + 1
        if depth or quote:
            # An inner command substitution counts as text; it is looked at for itself.
            if char == "(" and text[index - 1] == "$":
                depth += 1
            elif char == ")" and depth:
                depth -= 1
            elif char == quote and not depth:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char == "(" and text[index - 1] == "$":
            depth += 1
        elif char in "|;)>&`\n#":
            break
        if char == " " and not quote and not depth:
            words, word = [*words, word] if word else words, ""
        else:
            word += char
        index += 1
    return [*words, word] if word else words


def faults_of(session, words):
    """What is wrong with one command."""
    service, name, *rest = words
    shown = " ".join(words[:2])
    given = {word[2:].split("=")[0] for word in rest if re.match(r"--[a-z]", word)}
    # A command that is only mentioned has no options, or not all of them.
    whole = given and not any("…" in word for word in words)
    if (service, name) in CUSTOM:
        return [f"{shown}: no option --{option}" for option in sorted(given - CUSTOM[service, name] - EVERYWHERE)]
    known = NAMES.get(service, service)
    if known not in session.get_available_services():
        return [f"{shown}: there is no service {service}"]
    model = session.get_service_model(known)
    operations = {xform_name(operation, "-"): operation for operation in model.operation_names}
    if name == "wait":
        waiters = session.get_waiter_model(known)
        found = {xform_name(waiter, "-"): waiters.get_waiter(waiter).operation for waiter in waiters.waiter_names}
        operation = found.get(rest[0] if rest else "")
        shown = " ".join(words[:3])
    else:
        operation = operations.get(name)
    if operation is None:
        return [f"{shown}: {service} has no such command"]
    shape = model.operation_model(operation).input_shape
    members = {} if shape is None else shape.members
    options = {xform_name(member, "-"): member for member in members}
    flags = {f"no-{option}" for option, member in options.items() if members[member].type_name == "boolean"}
    faults = [f"{shown}: no option --{option}" for option in sorted(given - set(options) - flags - EVERYWHERE)]
    required = {xform_name(member, "-") for member in (shape.required_members if shape else [])}
    return faults + [f"{shown}: --{option} is required" for option in sorted(required - given) if whole]


def main():
    session = botocore.session.get_session()
    commands = [
        words_of(text[found.end() :])
        for path in sys.argv[1:]
        for text in [Path(path).read_text()]
        for found in START.finditer(text)
    ]
    commands = [words for words in commands if len(words) > 1]
    faults = [fault for words in commands for fault in faults_of(session, words)]
    json.dump({"commands": len(commands), "faults": sorted(set(faults))}, sys.stdout)


main()
