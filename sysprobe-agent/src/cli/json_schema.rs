//! JSON Schemas of fields whose values the type does not tell.

use schemars::{Schema, json_schema};

/// The schema of a string with one of these values.
pub(crate) fn one_of(values: impl IntoIterator<Item = &'static str>) -> Schema {
    json_schema!({ "type": "string", "enum": values.into_iter().collect::<Vec<_>>() })
}
