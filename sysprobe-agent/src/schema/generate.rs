//! From a type to its schema: JSON Schema 2020-12 of what the type is written as, strict enough that a wrong
//! field is found, in words for those who read JSON and not Rust.

use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

/// What a schema says of its document as a whole.
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

/// Of a field that is text in Rust and has one of these values.
pub(crate) fn one_of(values: impl IntoIterator<Item = &'static str>) -> Schema {
    json_schema!({ "type": "string", "enum": values.into_iter().collect::<Vec<_>>() })
}

fn adapt(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else { return };
    // It is that of the configuration, and nothing of a document.
    schema.remove("default");
    // They are those of Rust (`uint32`), which strict validators refuse as unknown.
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

/// A paragraph is a line, and nothing is `null` in JSON.
fn describe(schema: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ").replace("`None`", "`null`");
    }
}

/// An object has no fields but those that are named.
fn close(schema: &mut Map<String, Value>) {
    if schema.contains_key("properties") && !schema.contains_key("additionalProperties") {
        schema.insert("additionalProperties".to_owned(), json!(false));
    }
}

/// What may be left out is left out where there is nothing: it is never `null`.
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
