//! What the sieve keeps, for input in pieces of every size.

use proptest::prelude::*;

use super::*;

static PAIR: Want = Want::Members(&[("a", Want::All), ("b", Want::Members(&[("c", Want::All)]))]);
static LIST: Want = Want::Members(&[("version", Want::All), ("items", Want::Elements(&PAIR))]);

/// The kept parts of the document and of its elements.
fn sift(want: &'static Want, limit: usize, pieces: &[&[u8]]) -> (Sifted, Vec<Sifted>) {
    let (mut sieve, mut elements) = (Sieve::new(want, limit), Vec::new());
    for piece in pieces {
        sieve.push(piece, &mut |element| elements.push(element));
    }
    (sieve.end(), elements)
}

fn text(sifted: &Sifted) -> &str {
    assert!(!sifted.is_cut);
    std::str::from_utf8(&sifted.text).expect("text")
}

fn wanted(of: &str) -> String {
    text(&sift(&PAIR, 1000, &[of.as_bytes()]).0).to_owned()
}

#[test]
fn only_what_is_wanted_comes_through() {
    for (of, expected) in [
        (
            r#"{"a":1,"x":2,"b":{"c":[3,{"x":4}],"d":5}}"#,
            r#"{"a":1,"x":null,"b":{"c":[3,{"x":4}],"d":null}}"#,
        ),
        (r#"{"x":{"a":[1,"}"]},"y":"\\\"{","a":"\"}"}"#, r#"{"x":null,"y":null,"a":"\"}"}"#),
        (r#"{"b":[{"c":1,"d":2},{"d":[]}]}"#, r#"{"b":[{"c":1,"d":null},{"d":null}]}"#),
        (r#"{"x": "long, {text}" , "a" : true }"#, r#"{"x":null, "a" : true }"#),
        ("{}", "{}"),
        ("[1,\"a\"]", "[1,\"a\"]"),
        ("7", "7"),
    ] {
        assert_eq!(wanted(of), expected);
    }
}

#[test]
fn elements_are_handed_over_one_by_one() {
    let of = br#"{"version":"7","items":[{"a":1,"x":[{}]}, 5 ,{"b":{"c":"]"}}],"more":{"items":[1]}}"#;
    let (around, elements) = sift(&LIST, 1000, &[of]);
    assert_eq!(text(&around), r#"{"version":"7","items":[],"more":null}"#);
    assert_eq!(
        elements.iter().map(text).collect::<Vec<_>>(),
        [r#"{"a":1,"x":null}"#, " 5 ", r#"{"b":{"c":"]"}}"#]
    );
}

#[test]
fn what_is_too_large_is_cut_and_the_next_one_is_whole() {
    let long = format!(r#"{{"items":[{{"a":"{}"}},{{"a":1}}],"version":2}}"#, "x".repeat(1000));
    let (around, elements) = sift(&LIST, 100, &[long.as_bytes()]);
    assert_eq!((elements[0].is_cut, elements[0].text.len()), (true, 90));
    assert_eq!(text(&elements[1]), r#"{"a":1}"#);
    assert_eq!(text(&around), r#"{"items":[],"version":2}"#);
}

#[test]
fn what_is_no_json_does_not_become_any() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    for of in ["<html>", "}", "{]", "[}", r#"{"a":1}}"#, r#"{"a":"#, r#"{"x":["#, r#"{"x":1]"#, &deep] {
        assert!(serde_json::from_str::<serde_json::Value>(&wanted(of)).is_err(), "{of}");
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let name = prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just("c".to_owned()), ".{0,4}"];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i32>().prop_map(Into::into),
        "[\"\\\\{}\\[\\]:,<\u{1}a ]{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::hash_map(name.clone(), inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A slow reference implementation, which parses the whole document first.
fn strip(value: &mut serde_json::Value, want: &Want) {
    match (value, want) {
        (serde_json::Value::Array(elements), _) => elements.iter_mut().for_each(|each| strip(each, want)),
        (serde_json::Value::Object(members), Want::Members(wanted)) => {
            for (name, value) in members {
                match wanted.iter().find(|(wanted, _)| wanted == name) {
                    Some((_, want)) => strip(value, want),
                    None => *value = serde_json::Value::Null,
                }
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn any_json_in_pieces_of_any_size_keeps_its_meaning(value in json(), size in 1_usize..9) {
        let whole = value.to_string();
        let pieces: Vec<&[u8]> = whole.as_bytes().chunks(size).collect();
        let (sifted, _) = sift(&PAIR, 1 << 20, &pieces);
        let mut expected = value;
        strip(&mut expected, &PAIR);
        let found: serde_json::Value = serde_json::from_slice(&sifted.text).expect("JSON");
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_text_is_kept_beyond_the_limit(text in "[\"\\\\{}\\[\\]:,a ]{0,64}") {
        let (around, elements) = sift(&LIST, 16, &[b"{\"items\":[", text.as_bytes()]);
        prop_assert!(around.text.len() <= 16 && elements.iter().all(|element| element.text.len() <= 16));
    }
}
