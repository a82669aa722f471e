"""Edge values of PostgreSQL's base types, as text that the type's input takes and its output gives back unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LONG: Final = "9" * 600 + "." + "1" * 300

EDGES: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("true", "false"),
    "bytea": ("\\x", "\\x00", "\\x00ff5c22277b7d2c"),
    '"char"': ("a", "\\377"),
    "name": ("a", 'with "quotes" and \\'),
    "int8": ("9223372036854775807", "-9223372036854775808", "0"),
    "int2": ("32767", "-32768"),
    "int2vector": ("1 2 3",),
    "int4": ("2147483647", "-2147483648"),
    "regproc": ("now",),
    "text": ("", "a", "NULL", "q\"u\\o'te, {b}", "zwei\nZeilen\t", "größer 🌊", " "),
    "oid": ("0", "4294967295"),
    "tid": ("(0,1)", "(4294967295,65535)"),
    "xid": ("0", "4294967295"),
    "cid": ("7",),
    "oidvector": ("1 4294967295",),
    "json": ('{"a":[1,{"b":"\\"c\\\\"}],"d":null}', "{}", "9007199254740993"),
    "jsonb": ('{"a": [1, {"b": "\\"c\\\\"}], "d": null}', "{}", "9007199254740993"),
    "xml": ("<a>b</a>",),
    "point": ("(1,-2.5)",),
    "lseg": ("[(0,0),(1,1)]",),
    "path": ("((0,0),(1,1))", "[(0,0),(1,1)]"),
    "box": ("(2,2),(1,1)",),
    "polygon": ("((0,0),(1,1),(2,0))",),
    "line": ("{1,-1,0}",),
    "float4": ("3.4028235e+38", "1e-45", "-0", "NaN", "Infinity", "0.1"),
    "float8": ("1.7976931348623157e+308", "5e-324", "-0", "NaN", "-Infinity", "0.1"),
    "money": ("-$92,233,720,368,547,758.08", "$0.01"),
    "macaddr": ("08:00:2b:01:02:03",),
    "inet": ("192.168.0.1/24", "192.168.0.1", "::1", "2001:db8::1/64", "::ffff:1.2.3.4"),
    "cidr": ("10.0.0.0/8", "2001:db8::/32"),
    "macaddr8": ("08:00:2b:01:02:03:04:05",),
    "aclitem": ("=r/postgres",),
    "bpchar": ("a", "a  "),
    "varchar": ("", "varchar"),
    "date": ("4713-01-01 BC", "0001-01-01", "9999-12-31", "5874897-12-31", "infinity", "-infinity", "2026-02-28"),
    "time": ("00:00:00", "24:00:00", "12:34:56.789012", "12:34:56.7"),
    "timestamp": (
        "4713-01-01 00:00:00 BC",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "294276-12-31 23:59:59.999999",
        "infinity",
        "2026-01-01 00:00:00.000001",
    ),
    "timestamptz": (
        "infinity",
        "-infinity",
        "0044-03-15 12:00:00+00 BC",
        "0001-01-01 00:00:00+00",
        "1969-12-31 23:59:59.999999+00",
        "2026-07-01 12:34:56.789+00",
        "9999-12-31 23:59:59.999999+00",
        "10000-01-01 00:00:00+00",
        "294276-12-31 23:59:59.999999+00",
    ),
    "interval": (
        "178000000 years",
        "-1 years -2 mons +3 days -04:05:06.000001",
        "1 mon",
        "-178000000 years",
        "2147483647 days",
        "3 days 04:05:06.5",
        "-3 days -04:05:06.5",
        "-00:00:00.000001",
        "2562047788:00:54.775807",
        "infinity",
        "00:00:00",
    ),
    "timetz": ("24:00:00-15:59", "12:34:56.789012+05:30", "00:00:00+00", "12:00:00-00:00:30"),
    "bit": ("1", "0"),
    "varbit": ("", "1010101"),
    "numeric": (_LONG, f"-{_LONG}", "NaN", "Infinity", "-Infinity", "0.10", "9007199254740993", "1e-300", "1e300"),
    "refcursor": ("cursor",),
    "regprocedure": ("sin(double precision)",),
    "regoper": ("pg_catalog.||/",),
    "regoperator": ("+(integer,integer)",),
    "regclass": ("pg_class",),
    "regtype": ("integer",),
    "regrole": ("postgres",),
    "regnamespace": ("pg_catalog",),
    "regcollation": ('"C"',),
    "regconfig": ("simple",),
    "regdictionary": ("simple",),
    "uuid": ("ffffffff-ffff-ffff-ffff-ffffffffffff", "00000000-0000-0000-0000-000000000000"),
    "pg_lsn": ("FFFFFFFF/FFFFFFFF", "0/0"),
    "tsvector": ("'a':1A 'b c'",),
    "tsquery": ("'a' & !'b'",),
    "jsonpath": ('$."a"[*]?(@ > 1)',),
    "txid_snapshot": ("10:20:10,14",),
    "pg_snapshot": ("10:20:10,14",),
    "xid8": ("18446744073709551615",),
    "circle": ("<(0,0),1.5>",),
    "int4range": ("[1,5)", "empty", "(,)"),
    "int8range": ("[1,9223372036854775807)", "empty"),
    "numrange": ("[0.10,1.5]", "(,1)", "(NaN,)"),
    "daterange": ("[2026-01-01,2026-02-01)", "[2026-01-01,infinity)", "(,2026-01-01)"),
    "tsrange": ('["2026-01-01 00:00:00","2026-01-02 00:00:00")', "[-infinity,)"),
    "tstzrange": ('["2026-01-01 00:00:00+00","2026-01-02 00:00:00+00")',),
    "int4multirange": ("{[1,3),[5,7)}", "{}", "{(,1)}"),
    "int8multirange": ("{[1,3)}",),
    "nummultirange": ("{[0.1,2]}",),
    "datemultirange": ("{[2026-01-01,2026-02-01)}",),
    "tsmultirange": ('{["2026-01-01 00:00:00","2026-01-02 00:00:00")}',),
    "tstzmultirange": ('{["2026-01-01 00:00:00+00","2026-01-02 00:00:00+00")}',),
}

# Types that no user has columns of, or whose input refuses everything.
WITHOUT_INPUT: Final = frozenset(
    (
        *("gtsvector", "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list"),
        *("pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "pg_ddl_command"),
    )
)

# What values become. Types that are not here stay text, and so does what `STAYS_TEXT` finds.
BECOMES: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("bool",),
    "bytea": ("bytes",),
    "int2": ("int",),
    "int4": ("int",),
    "int8": ("int",),
    "oid": ("int",),
    "float4": ("float",),
    "float8": ("float",),
    "numeric": ("Decimal",),
    "json": ("dict", "int"),
    "jsonb": ("dict", "int"),
    "uuid": ("UUID",),
    "inet": ("IPv4Interface", "IPv4Address", "IPv6Address", "IPv6Interface"),
    "cidr": ("IPv4Network", "IPv6Network"),
    "date": ("date",),
    "time": ("time",),
    "timetz": ("time",),
    "timestamp": ("datetime",),
    "timestamptz": ("datetime",),
    "interval": ("timedelta", "Interval"),
    **{f"{name}range": ("Range",) for name in ("int4", "int8", "num", "date", "ts", "tstz")},
    **{f"{name}multirange": ("Multirange",) for name in ("int4", "int8", "num", "date", "ts", "tstz")},
}


def stays_text(name: str, text: str) -> bool:
    """What Python's type cannot hold."""
    if name not in ("date", "time", "timetz", "timestamp", "timestamptz", "interval"):
        return False
    year = text.lstrip("-").split("-", maxsplit=1)[0]
    is_far = name in ("date", "timestamp", "timestamptz") and year.isdigit() and int(year) > 9999
    return "infinity" in text or text.endswith("BC") or text.startswith("24:") or is_far
