//! Generates the JSON Schema 2020-12 of a type's serialized form, strict enough to detect a misspelled field,
//! and worded for readers of JSON rather than Rust.

use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The top-level keywords of a schema.
pub(super) struct Head {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) version: u32,
}

pub(super) fn document<T: JsonSchema>(head: &Head) -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(adapt));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), json!(head.id));
    schema.insert("title".to_owned(), json!(head.title));
    schema.insert("description".to_owned(), json!(head.description));
    if let Some(version) = schema.pointer_mut("/properties/version").and_then(Value::as_object_mut) {
        version.insert("const".to_owned(), json!(head.version));
    }
    schema
}

fn adapt(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else { return };
    // The defaults are those of the configuration and do not apply to documents.
    schema.remove("default");
    // The formats are Rust's (`uint32`), which strict validators reject as unknown.
    schema.remove("format");
    describe(schema);
    close(schema);
    let required: Vec<Value> = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for (name, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        if let Some(property) = property.as_object_mut()
            && !required.contains(&json!(name))
        {
            deny_null(property);
        }
    }
}

/// Puts each paragraph on one line, and writes Rust's `None` as JSON's `null`.
fn describe(schema: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ").replace("`None`", "`null`");
    }
}

/// Forbids fields that the schema does not name.
fn close(schema: &mut Map<String, Value>) {
    if schema.contains_key("properties") && !schema.contains_key("additionalProperties") {
        schema.insert("additionalProperties".to_owned(), json!(false));
    }
}

/// Optional fields without a value are left out, so they are never `null`.
fn deny_null(property: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            property.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(forms)) = property.get_mut("anyOf") {
        forms.retain(|one| one["type"] != "null");
        if let [Value::Object(only)] = &mut forms[..] {
            let only = std::mem::take(only);
            property.remove("anyOf");
            property.extend(only);
        }
    }
}
