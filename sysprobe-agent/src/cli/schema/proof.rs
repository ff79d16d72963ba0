//! For tests: validates JSON documents against their schemas.

use std::collections::BTreeSet;

use clap::ValueEnum as _;
use serde_json::Value;

use super::Form;

/// The violations of the schema in a document, with their places.
pub(crate) fn faults(form: Form, document: &Value) -> BTreeSet<String> {
    let schema = form.schema().to_value();
    let validator = jsonschema::draft202012::new(&schema).expect("it is a schema");
    let faults = validator.iter_errors(document);
    faults.map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
}

/// Parses a command's output, and checks it against its schema.
pub(crate) fn parse(command: &str, printed: &str) -> Value {
    let document = serde_json::from_str(printed).expect("a document");
    assert_fits(form_of(command), &document);
    document
}

pub(crate) fn assert_fits(form: Form, document: &Value) {
    let faults = faults(form, document);
    assert!(faults.is_empty(), "{}: {faults:#?} in {document:#}", form.name());
}

fn form_of(command: &str) -> Form {
    let title = format!("{command} -o json");
    let is_its = |form: &&Form| form.schema().get("title").is_some_and(|one| *one == title);
    *Form::value_variants().iter().find(is_its).expect("every command has a form")
}
