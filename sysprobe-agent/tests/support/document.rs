//! Documents that commands print with `-o json`, checked against the schemas that the same binary prints.

use serde_json::Value;

use super::command::{self, Outcome};

/// The document that a command has printed, after checking it against the schema of this name.
pub(crate) fn of(schema: &str, outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let text = &outcome.stdout;
    let document = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let faults = faults(schema, &document);
    assert!(faults.is_empty(), "{schema}: {faults:#?} in {document:#}");
    document
}

/// The schema's objections to a document, one for each place.
pub(crate) fn faults(schema: &str, document: &Value) -> Vec<String> {
    let printed = command::run_with(&["schema", schema]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let schema = serde_json::from_str(&printed.stdout).expect("a schema");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    validator.iter_errors(document).map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
}
