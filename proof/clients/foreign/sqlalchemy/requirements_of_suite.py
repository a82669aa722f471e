"""PostgreSQL's features beyond those that the suite expects of every database."""

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements


class Requirements(SuiteRequirements):
    """Opens the parts of the suite that PostgreSQL passes."""


_OPEN = [
    *["array_type", "json_type", "uuid_data_type", "views", "schemas", "time_microseconds"],
    *["cross_schema_fk_reflection", "comment_reflection", "check_constraint_reflection", "window_functions"],
    *["ctes", "ctes_on_dml", "ctes_with_update_delete", "insert_from_select", "returning", "update_returning"],
    *["delete_returning", "insert_returning", "insert_executemany_returning", "isolation_level", "autocommit"],
    *["savepoints", "two_phase_transactions", "sequences", "server_side_cursors", "unicode_ddl", "tuple_in"],
    *["datetime_timezone", "time_timezone", "datetime_interval", "precision_numerics_many_significant_digits"],
    *["precision_numerics_retains_significant_digits", "infinity_floats", "fetch_first", "fetch_percent"],
    *["fetch_ties", "fetch_no_order_by", "fetch_offset_with_options", "identity_columns", "computed_columns"],
    *["reflects_indexes_w_sorting", "reflect_indexes_with_expressions", "materialized_views", "regexp_match"],
    *["supports_is_distinct_from", "emulated_lastrowid_even_with_sequences", "text_type", "date_historic"],
    *["get_isolation_level_values", "cursor_works_post_rollback", "parens_in_union_contained_select_w_limit_offset"],
]


def _opened(_self: object) -> exclusions.compound:
    return exclusions.open()


for _name in _OPEN:
    if hasattr(SuiteRequirements, _name):
        setattr(Requirements, _name, property(_opened))
