//! Lists that arrive in parts of any size, with items that are too large, malformed, or full of unneeded
//! fields.

use std::collections::HashMap;

use prost::Message;
use prost::encoding::encode_varint;

use super::super::messages::{PodSandbox, PodSandboxMetadata};
use super::*;

fn sandbox(name: &str, label: usize) -> PodSandbox {
    let metadata = PodSandboxMetadata { name: name.into(), uid: "u".into(), namespace: "ns".into() };
    let labels = HashMap::from([("app".to_owned(), "x".repeat(label))]);
    PodSandbox { id: "5a9f".into(), metadata: Some(metadata), created_at: 7, labels }
}

fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    encode_varint(bytes.len() as u64, &mut field);
    [field, bytes.to_vec()].concat()
}

fn answer(items: &[Vec<u8>]) -> Vec<u8> {
    let message = items.iter().flat_map(|item| field(1, item)).collect::<Vec<_>>();
    let length = u32::try_from(message.len()).expect("small").to_be_bytes();
    [&[0][..], &length, &message].concat()
}

fn read(answer: &[u8], part: usize) -> Result<List<PodSandbox>, Status> {
    let mut reading = Reading::new();
    for part in answer.chunks(part) {
        reading.take(part)?;
    }
    reading.end()
}

#[test]
fn a_list_is_the_same_in_parts_of_any_size() {
    let sandboxes = [sandbox("a", 10), PodSandbox::default(), sandbox("b", 700)];
    // An annotation, a runtime handler, and a number that is not known yet, besides the needed fields.
    let beside = [field(6, &[b'<'; 3000]), field(7, b"runc"), vec![9 << 3, 200, 1]].concat();
    let items: Vec<_> =
        sandboxes.iter().map(|item| [beside.clone(), item.encode_to_vec()].concat()).collect();
    let answer = answer(&items);
    for part in [1, 2, 7, 64, 1000, answer.len()] {
        let list = read(&answer, part).unwrap_or_else(|error| panic!("parts of {part}: {error}"));
        assert_eq!(list.items, sandboxes, "parts of {part}");
        assert_eq!(list.unread, []);
    }
    assert_eq!(read(&[0; 5], 1).expect("an empty list").items, []);
}

#[test]
fn what_is_not_needed_takes_no_memory() {
    let mut reading = Reading::<PodSandbox>::new();
    let whole = answer(&[[field(6, &vec![b'<'; 40 << 20]), sandbox("a", 1).encode_to_vec()].concat()]);
    for part in whole.chunks(16 << 10) {
        reading.take(part).expect("a part");
        assert!(reading.waiting.capacity() < 64 << 10, "{} bytes", reading.waiting.capacity());
    }
    assert_eq!(reading.end().expect("a list").items, [sandbox("a", 1)]);
}

#[test]
fn an_item_that_cannot_be_read_is_counted_and_the_others_have_their_names() {
    let items = [
        sandbox("large", ITEM_MAX + 1).encode_to_vec(),
        // An id that is not valid text.
        field(1, &[0xff]),
        field(1, &[0xfe]),
        sandbox("good", 1).encode_to_vec(),
    ];
    let list = read(&answer(&items), 4096).expect("a list");
    assert_eq!(list.items, [sandbox("good", 1)]);
    let unread: Vec<_> = list.unread.iter().map(|unread| (unread.why, &*unread.what, unread.count)).collect();
    assert_eq!(unread, [(Why::TooLarge, "ns/large", 1), (Why::Malformed, "?", 2)]);
}

#[test]
fn a_list_that_is_torn_or_none_is_an_error() {
    let whole = answer(&[sandbox("a", 1).encode_to_vec()]);
    for end in 0..whole.len() {
        assert!(read(&whole[..end], 3).is_err(), "{end} of {} bytes", whole.len());
    }
    for broken in
        [&[1, 0, 0, 0, 0][..], &[0, 0, 0, 0, 2, 0x0a, 5], &[0, 0, 0, 0, 1, 0x0b], &[0, 0, 0, 0, 0, 9]]
    {
        assert!(read(broken, 100).is_err(), "{broken:?}");
    }
}
