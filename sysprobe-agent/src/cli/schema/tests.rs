//! Properties of all schemas.

use std::fs;

use serde_json::{Value, json};

use super::{proof::faults, *};
use crate::cli::command::blame::Blame;
use crate::cli::command::latency::Latency;
use crate::cli::fixture::live::json as printed;
use crate::cli::fixture::pod::{target, window};

/// Visits every nested schema, with its place.
fn each(place: &str, schema: &Value, judge: &mut impl FnMut(&str, &Value)) {
    judge(place, schema);
    for keyword in ["properties", "$defs"] {
        for (name, inner) in schema[keyword].as_object().into_iter().flatten() {
            each(&format!("{place}/{name}"), inner, judge);
        }
    }
    for keyword in ["oneOf", "anyOf", "prefixItems"] {
        schema[keyword].as_array().into_iter().flatten().for_each(|inner| each(place, inner, judge));
    }
    for keyword in ["items", "additionalProperties"] {
        if schema[keyword].is_object() {
            each(place, &schema[keyword], judge);
        }
    }
}

#[test]
fn every_schema_is_one_and_says_which() {
    for form in Form::value_variants() {
        let schema = form.schema().to_value();
        jsonschema::draft202012::meta::validate(&schema)
            .unwrap_or_else(|error| panic!("{error}: {schema:#}"));
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let version = &schema["properties"]["version"]["const"];
        assert_eq!(schema["$id"], format!("urn:sysprobe:schema:{}:{version}", form.name()));
        assert!(version.as_u64() > Some(0), "{schema:#}");
        assert!(schema["title"].as_str().is_some_and(|title| title.starts_with("sysprobe ")), "{schema:#}");
        assert!(schema["description"].as_str().is_some_and(|text| text.contains("`sysprobe ")), "{schema:#}");
    }
}

#[test]
fn every_object_is_closed_and_told_of_in_words_of_json() {
    for form in Form::value_variants() {
        each(&form.name(), &form.schema().to_value(), &mut |place, schema| {
            if schema["type"] == "object" {
                assert!(schema.get("additionalProperties").is_some(), "{place} is open: {schema:#}");
            }
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(
                !text.contains("`None`") && !text.contains('\n') && !text.contains("::"),
                "{place}: {text}"
            );
            assert!(schema.get("default").is_none() && schema.get("format").is_none(), "{place}: {schema:#}");
        });
    }
}

#[test]
fn every_schema_is_published() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schema");
    let files = fs::read_dir(directory).expect("the pages").map(|entry| entry.expect("an entry").file_name());
    let mut files: Vec<_> = files.map(|name| name.into_string().expect("UTF-8")).collect();
    let mut expected: Vec<_> =
        Form::value_variants().iter().map(|form| form.name() + ".schema.json").collect();
    files.sort();
    expected.sort();
    assert_eq!(files, expected, "each is in the list of xtask/src/docs.rs: `cargo xtask docs` writes it");
}

/// The places and names of all fields of a document.
fn fields(place: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Object(object) => {
            let own = object.keys().map(|name| (place.to_owned(), name.clone()));
            let inner = object.iter().flat_map(|(name, value)| fields(&format!("{place}/{name}"), value));
            own.chain(inner).collect()
        }
        Value::Array(list) => {
            let each = list.iter().enumerate();
            each.flat_map(|(at, value)| fields(&format!("{place}/{at}"), value)).collect()
        }
        _ => Vec::new(),
    }
}

/// Renames each field in turn, in a document that fits.
fn assert_refuses_other_names(form: Form, document: &Value) {
    assert!(faults(form, document).is_empty());
    let fields = fields("", document);
    assert!(fields.len() > 20, "{document:#}");
    for (place, name) in fields {
        let mut renamed = document.clone();
        let object = renamed.pointer_mut(&place).and_then(Value::as_object_mut).expect("it is there");
        let value = object.remove(&name).expect("a field");
        object.insert(format!("{name}_renamed"), value);
        assert!(!faults(form, &renamed).is_empty(), "{}: {place}/{name}", form.name());
    }
}

#[test]
fn a_field_with_another_name_is_refused() {
    let (earlier, later) = window();
    assert_refuses_other_names(Form::Blame, &printed::<Blame>(&earlier, &later, target()));
    assert_refuses_other_names(Form::Latency, &printed::<Latency>(&earlier, &later, target()));
}

#[test]
fn another_version_type_or_word_is_refused() {
    let (earlier, later) = window();
    let document = printed::<Blame>(&earlier, &later, target());
    let changes = [
        ("/version", json!(99)),
        ("/window_seconds", json!("2")),
        ("/window_seconds", Value::Null),
        ("/workload/gone", Value::Null),
        ("/waits/count", json!(-1)),
        ("/waits/causes/0/cause", json!("bad_luck")),
    ];
    for (place, value) in changes {
        let mut changed = document.clone();
        *changed.pointer_mut(place).expect("it is there") = value;
        assert!(!faults(Form::Blame, &changed).is_empty(), "{place}");
    }
}
