"""Prints what the reference says of the Python SDK's public modules, as JSON (see model.ts).

Nothing is imported: griffe reads the source, as a type checker does. Owns what is public: the names
in `__all__`, and of classes the members without an underscore, but for those whose docstring begins
with "Internal".
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator
from typing import Any, Final, TypeVar, cast

import griffe

MODULES: Final = (
    "highwater",
    "highwater.errors",
    "highwater.outbox",
    "highwater.webhooks",
    "highwater.gate",
    "highwater.opentelemetry",
    "highwater.dbapi",
    "highwater.sqlalchemy",
    "highwater.enlist",
    "highwater.stores",
)
PARAMETER_PREFIX: Final = {"variadic positional": "*", "variadic keyword": "**"}
WIDTH: Final = 100

Json = dict[str, Any]
K = TypeVar("K", bound=griffe.Object)


def doc_of(thing: griffe.Object | griffe.Alias | None) -> Json:
    """Text, examples and parameters of a docstring."""
    docstring = None if thing is None else thing.docstring
    documented: Json = {"text": "", "examples": [], "params": {}}
    if docstring is None:
        return documented
    texts: list[str] = []
    for section in griffe.parse_google(docstring, warnings=False):
        match section.kind.value:
            case "text":
                texts.append(section.value)
            case "parameters":
                documented["params"] |= {each.name: " ".join(each.description.split()) for each in section.value}
            case "admonition" if section.value.kind == "example":
                documented["examples"].append(section.value.description)
            case kind:
                raise SystemExit(f"{docstring.parent}: a section {kind} is not known here")
    documented["text"] = "\n\n".join(texts)
    return documented


def resolved(name: str, scope: griffe.Object) -> griffe.Object | None:
    """What a name stands for, where that is something of the package."""
    try:
        found = scope.modules_collection[scope.resolve(name)]
        return found.final_target if isinstance(found, griffe.Alias) else found
    except (KeyError, griffe.NameResolutionError, griffe.AliasResolutionError):
        return None


def target_of(member: griffe.Object | griffe.Alias, kind: type[K]) -> K:
    target = member.final_target if isinstance(member, griffe.Alias) else member
    if not isinstance(target, kind):
        raise SystemExit(f"{target.path} is not what it seems to be")
    return target


class Types:
    """Annotations for users: private aliases are spelled out, and type variables filled in."""

    def __init__(self, public: set[str]) -> None:
        self._public = public
        self._filled: dict[str, str] = {}

    def within(self, cls: griffe.Class) -> None:
        """What the type variables of its generic bases stand for:

        `class Highwater(BaseClient[DurabilityPromise])`.
        """
        self._filled = {}
        for base in cls.bases:
            name, _, inside = str(base).partition("[")
            generic = resolved(name, cls) if inside else None
            variables = [str(each) for each in generic.bases] if isinstance(generic, griffe.Class) else []
            for each in variables:
                if each.startswith("Generic["):
                    names = each.removeprefix("Generic[").removesuffix("]").split(", ")
                    self._filled |= dict(zip(names, inside.removesuffix("]").split(", "), strict=True))

    def text(self, expression: object, scope: griffe.Object) -> str:
        return re.sub(r"(?<![\w.])[A-Z]\w*", lambda name: self._name(name[0], scope), str(expression))

    def _name(self, name: str, scope: griffe.Object) -> str:
        if name in self._filled:
            return self._filled[name]
        target = resolved(name, scope)
        if not isinstance(target, griffe.Attribute) or target.path in self._public or "TypeVar" in str(target.value):
            return name
        return self.text(str(target.value).strip("'"), target.module)


def parameters_of(function: griffe.Function) -> list[griffe.Parameter]:
    return [each for each in function.parameters if each.name not in ("self", "cls")]


def parameter_texts(function: griffe.Function, types: Types) -> Iterator[str]:
    """As they stand in a signature, with the marks of what is positional or a keyword only."""
    found = parameters_of(function)
    kinds = [each.kind.value if each.kind else "" for each in found]
    for at, each in enumerate(found):
        if kinds[at] == "keyword-only" and not {"keyword-only", "variadic positional"} & set(kinds[:at]):
            yield "*"
        text = PARAMETER_PREFIX.get(kinds[at], "") + each.name
        text += "" if each.annotation is None else f": {types.text(each.annotation, function.module)}"
        if each.default is not None and kinds[at] not in PARAMETER_PREFIX:
            text += f" = {default_text(each, function)}"
        yield text
        if kinds[at] == "positional-only" and kinds[at + 1 : at + 2] != ["positional-only"]:
            yield "/"


def default_text(parameter: griffe.Parameter, function: griffe.Function) -> str:
    """A constant by its value; of what has no name for users only that there is something."""
    text = str(parameter.default)
    if re.fullmatch(r"[A-Z][A-Z_]*", text):
        constant = resolved(text, function.module)
        return str(constant.value) if isinstance(constant, griffe.Attribute) else text
    return "..." if text.startswith("_") else text


def signature_of(
    function: griffe.Function, name: str, types: Types, *, is_method: bool, hidden: Collection[str] = ()
) -> str:
    parts = [part for part in parameter_texts(function, types) if part.partition(":")[0] not in hidden]
    is_made = function.name == "__init__"
    returns = "" if is_made or function.returns is None else f" -> {types.text(function.returns, function.module)}"
    head = "" if is_made or function.name == "__call__" else "def "
    head = f"async {head}" if "async" in function.labels and head else head
    if is_method and head:
        name = name.rsplit(".", 1)[-1]
    line = f"{head}{name}({', '.join(parts)}){returns}"
    if len(line) <= WIDTH:
        return line
    # The list of parameters has the types, then.
    untyped = (re.sub(r"^(\W*\w+): .*?(?: (=) (.*))?$", r"\1\2\3", part) for part in parts)
    return f"{head}{name}({', '.join(untyped)}){returns}"


def params_of(function: griffe.Function, documented: Json, types: Types) -> list[Json]:
    known = dict(documented["params"])
    found = []
    for each in parameters_of(function):
        prefix = PARAMETER_PREFIX.get(each.kind.value if each.kind else "", "")
        default = None if each.default is None or prefix else default_text(each, function)
        found.append(
            {
                "name": prefix + each.name,
                "type": types_of(each, function, types),
                "default": default,
                "doc": known.pop(each.name, ""),
            }
        )
    if known:
        raise SystemExit(f"{function.path}: the docstring has parameters that there are not: {', '.join(known)}")
    return found


def types_of(parameter: griffe.Parameter, function: griffe.Function, types: Types) -> str:
    """Of overloads those of each: what implements them takes anything."""
    several = function.overloads or [function]
    same = [other for one in several for other in one.parameters if other.name == parameter.name]
    texts = [types.text(each.annotation, function.module) for each in same if each.annotation is not None]
    return " | ".join(dict.fromkeys(texts))


def function_entry(function: griffe.Function, name: str, types: Types, *, is_method: bool = False) -> Json:
    documented = doc_of(function)
    several = function.overloads or [function]
    return {
        "name": name,
        "kind": "function",
        "signature": "\n".join(signature_of(each, name, types, is_method=is_method) for each in several),
        "params": params_of(function, documented, types),
        "text": documented["text"],
        "examples": documented["examples"],
    }


def base_classes(cls: griffe.Class) -> list[griffe.Class]:
    return list(cls.mro())


def class_entry(cls: griffe.Class, name: str, types: Types, public: set[str]) -> Json:
    types.within(cls)
    documented = doc_of(docstring_owner(cls))
    bases = base_classes(cls)
    shown = [each.name for each in bases if each.path in public][:1]
    hidden = {n for each in bases if each.path in public for n in each.all_members}
    fields, methods = [], []
    for member in members_of(cls):
        if member.name in hidden and member.name not in cls.members:
            continue
        if member.is_attribute:
            attribute = field_entry(member, types)
            if attribute is not None:
                fields.append(attribute)
        elif not (doc_of(member)["text"].startswith("Internal")):
            methods.append(
                function_entry(target_of(member, griffe.Function), f"{name}.{member.name}", types, is_method=True)
            )
    kind = kind_of(cls, bases)
    entry = {
        "name": name,
        "kind": kind,
        "signature": f"class {name}({', '.join(shown)})" if shown else f"class {name}",
        "params": [],
        "text": documented["text"],
        "examples": documented["examples"],
        "bases": shown,
        "fields": fields,
        "methods": methods,
    }
    made = cls.all_members.get("__init__")
    if kind == "class" and made is not None and documented["params"]:
        function = target_of(made, griffe.Function)
        hidden = {each for each, doc in documented["params"].items() if doc.startswith("Internal")}
        entry["signature"] = signature_of(function, name, types, is_method=False, hidden=hidden)
        entry["params"] = [each for each in params_of(function, documented, types) if each["name"] not in hidden]
    return entry


def docstring_owner(cls: griffe.Class) -> griffe.Object | griffe.Alias:
    """The class, or the one whose docstring it takes over: `__doc__ = Base.__doc__`."""
    taken = cls.members.get("__doc__")
    if isinstance(taken, griffe.Attribute) and str(taken.value).endswith(".__doc__"):
        owner = cls.module.resolve(str(taken.value).split("[")[0].removesuffix(".__doc__"))
        return cast("griffe.Class", cls.modules_collection[owner])
    return cls


def members_of(cls: griffe.Class) -> list[griffe.Object | griffe.Alias]:
    """Its own ones first."""
    found = [each for each in cls.all_members.values() if not each.name.startswith("_")]
    return sorted(found, key=lambda each: each.name not in cls.members)


def field_entry(member: griffe.Object | griffe.Alias, types: Types) -> Json | None:
    attribute = target_of(member, griffe.Attribute)
    documented = doc_of(attribute)
    if documented["text"].startswith("Internal"):
        return None
    default = None if attribute.value is None or "instance-attribute" in attribute.labels else str(attribute.value)
    if default is not None and default.startswith("field("):
        default = None
    return {
        "name": attribute.name,
        "type": "" if attribute.annotation is None else types.text(attribute.annotation, attribute.module),
        "default": default,
        "doc": documented["text"],
    }


def kind_of(cls: griffe.Class, bases: list[griffe.Class]) -> str:
    names = {str(base) for each in (cls, *bases) for base in each.bases}
    if names & {"Exception", "HighwaterError"}:
        return "error"
    if "TypedDict" in names:
        return "options"
    return "data" if "dataclass" in cls.labels or "Protocol" in names else "class"


def attribute_entry(attribute: griffe.Attribute, name: str, types: Types, public: set[str]) -> Json:
    documented = doc_of(attribute)
    value = str(attribute.value)
    cls = None
    if value.endswith("()"):
        cls = attribute.module.members.get(value.removesuffix("()"))
    if isinstance(cls, griffe.Class):
        # An object whose class is not exported: it is shown by what can be done with it.
        made = class_entry(cls, name, types, public)
        call = cls.members.get("__call__")
        if isinstance(call, griffe.Function):
            made |= function_entry(call, name, types) | {"fields": [], "methods": made["methods"]}
        return made | {"kind": "function"}
    is_type = str(attribute.annotation) == "TypeAlias" or attribute.name[:1].isupper()
    annotation = "" if is_type or attribute.annotation is None else f": {attribute.annotation}"
    return {
        "name": name,
        "kind": "type" if is_type else "value",
        "signature": f"{name}{annotation} = {wrapped(types.text(value, attribute.module))}",
        "params": [],
        "text": documented["text"],
        "examples": documented["examples"],
    }


def wrapped(value: str) -> str:
    """A long list of words over several lines."""
    text = " ".join(value.strip("'\"").split()) if value[:1] in "'\"" else " ".join(value.split())
    if len(text) <= WIDTH - 20 or not text.startswith("Literal["):
        return text
    words = text.removeprefix("Literal[").removesuffix("]").split(", ")
    return "Literal[\n" + "".join(f"    {word},\n" for word in words) + "]"


def module_entry(module: griffe.Module, taken: set[str], public: set[str]) -> Json:
    documented = doc_of(module)
    types = Types(public)
    entries = []
    for exported in module.exports or []:
        name = str(exported)
        member = module[name]
        target = member.final_target if isinstance(member, griffe.Alias) else member
        if target.path in taken:
            continue
        taken.add(target.path)
        if isinstance(target, griffe.Class):
            entries.append(class_entry(target, name, types, public))
        elif isinstance(target, griffe.Function):
            entries.append(function_entry(target, name, types))
        elif isinstance(target, griffe.Attribute):
            entries.append(attribute_entry(target, name, types, public))
        else:
            raise SystemExit(f"{target.path}: neither class, function nor attribute")
    return {"name": module.path, "text": documented["text"], "examples": documented["examples"], "entries": entries}


def main(source: str) -> None:
    package = griffe.load("highwater", search_paths=[source], resolve_aliases=True)
    parts = [name.removeprefix("highwater").lstrip(".") for name in MODULES]
    modules = [cast("griffe.Module", package[part] if part else package) for part in parts]
    public = {module[str(name)].canonical_path for module in modules for name in module.exports or []}
    # A name that several of them export is described once: the errors, which the package exports as
    # well, in their own module.
    taken: set[str] = set()
    first = [modules[1], modules[0], *modules[2:]]
    documented = {module.path: module_entry(module, taken, public) for module in first}
    json.dump([documented[name] for name in MODULES], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
