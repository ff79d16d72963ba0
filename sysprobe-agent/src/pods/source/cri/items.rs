//! Extracts the items of a list from the runtime's answer as it arrives. The answer is never in memory as a
//! whole: only the needed fields of each item are kept, so annotations of any size are skipped. An item that
//! cannot be read is counted, and does not affect the others.

use std::fmt::Display;
use std::mem;

use prost::encoding::{WireType, decode_key, decode_varint};
use tonic::Status;

use super::messages::Item;
use crate::pods::unread::{Unread, Why};

/// More than the names and labels of a pod take, which come from an object of at most 1.5 MiB.
const ITEM_MAX: usize = 2 << 20;
/// Limit for all items together.
const LIST_MAX: usize = 64 << 20;
/// A field's key and length are two varints.
const HEAD_MAX: usize = 20;
/// gRPC's prefix of a message: the compression flag and the length.
const PREFIX: usize = 5;

/// The result of reading a list.
#[derive(Debug)]
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
    pub(super) unread: Vec<Unread>,
    kept: usize,
}

/// A list that is being read.
#[derive(Debug)]
pub(super) struct Reading<T> {
    /// Received and not yet processed: at most one field of an item, and a part of the answer.
    waiting: Vec<u8>,
    /// How many of the bytes still to arrive are not needed.
    skip: u64,
    /// Bytes left of the list, from `waiting` on; `None` before the prefix came.
    left: Option<u64>,
    item: Option<Partial>,
    list: List<T>,
}

/// An item of which fields have not arrived yet.
#[derive(Debug, Default)]
struct Partial {
    left: u64,
    kept: Vec<u8>,
    is_too_large: bool,
}

/// The beginning of a field.
struct Head {
    tag: u32,
    /// Length of the field, including this head.
    whole: u64,
    /// Length of the head, which includes the value of a number.
    length: u64,
    is_bytes: bool,
}

impl<T: Item> Reading<T> {
    pub(super) fn new() -> Self {
        let list = List { items: Vec::new(), unread: Vec::new(), kept: 0 };
        Self { waiting: Vec::new(), skip: 0, left: None, item: None, list }
    }

    /// Takes in the next part of the answer.
    pub(super) fn take(&mut self, part: &[u8]) -> Result<(), Status> {
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(part.len());
        self.skip -= skipped as u64;
        let mut waiting = mem::take(&mut self.waiting);
        waiting.extend_from_slice(&part[skipped..]);
        let mut at = 0;
        while let Some(over) = self.step(&waiting[at..])? {
            let here = usize::try_from(over).unwrap_or(usize::MAX).min(waiting.len() - at);
            at += here;
            self.skip = over - here as u64;
        }
        waiting.drain(..at);
        self.waiting = waiting;
        Ok(())
    }

    /// The items, if the list is complete.
    pub(super) fn end(mut self) -> Result<List<T>, Status> {
        self.finish_item();
        if self.left != Some(0) || self.skip > 0 || self.item.is_some() {
            return Err(Status::data_loss("the container runtime's list ends in the middle"));
        }
        Ok(self.list)
    }

    /// How many bytes are done with, of these and those that follow; `None` to wait for more.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<u64>, Status> {
        self.finish_item();
        let Some(left) = self.left else {
            let Some(prefix) = bytes.first_chunk::<PREFIX>() else { return Ok(None) };
            let [0, length @ ..] = prefix else { return Err(broken("it is compressed")) };
            self.left = Some(u32::from_be_bytes(*length).into());
            return Ok(Some(PREFIX as u64));
        };
        if bytes.is_empty() || (bytes.len() < HEAD_MAX && (bytes.len() as u64) < left) {
            return Ok(None);
        }
        let head = Head::read(bytes)?;
        if head.whole > self.item.as_ref().map_or(left, |item| item.left) {
            return Err(broken("a field is longer than what it is a part of"));
        }
        let over = match &mut self.item {
            None if head.tag == T::LISTED_AS && head.is_bytes => {
                self.item = Some(Partial { left: head.whole - head.length, ..Partial::default() });
                head.length
            }
            None => head.whole,
            Some(item) => {
                let Some(over) = item.step(&head, T::FIELDS, bytes) else { return Ok(None) };
                over
            }
        };
        self.left = Some(left - over);
        Ok(Some(over))
    }

    /// Moves a complete item into the list.
    fn finish_item(&mut self) {
        let Some(Partial { kept, is_too_large, .. }) = self.item.take_if(|item| item.left == 0) else {
            return;
        };
        let list = &mut self.list;
        list.kept += kept.len();
        match T::decode(&*kept) {
            Ok(item) if is_too_large => list.pass_over(Why::TooLarge, item.name(), "its names are too long"),
            Ok(item) if list.kept > LIST_MAX => {
                list.pass_over(Why::NoRoom, item.name(), "the list is too long");
            }
            Ok(item) => list.items.push(item),
            Err(error) => list.pass_over(Why::Malformed, "?".to_owned(), &error.to_string()),
        }
    }
}

impl Partial {
    fn step(&mut self, head: &Head, wanted: &[u32], bytes: &[u8]) -> Option<u64> {
        let whole = usize::try_from(head.whole).unwrap_or(usize::MAX);
        if wanted.contains(&head.tag) {
            if self.kept.len().saturating_add(whole) > ITEM_MAX {
                self.is_too_large = true;
            } else {
                self.kept.extend_from_slice(bytes.get(..whole)?);
            }
        }
        self.left -= head.whole;
        Some(head.whole)
    }
}

impl<T> List<T> {
    fn pass_over(&mut self, why: Why, what: String, error: &str) {
        // Items that are reported together have the first one's name.
        match self.unread.iter_mut().find(|unread| unread.why == why) {
            Some(unread) => unread.count += 1,
            None => self.unread.push(Unread::called(why, what, error)),
        }
    }
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Self, Status> {
        let mut rest = bytes;
        let (tag, kind) = decode_key(&mut rest).map_err(broken)?;
        let body = match kind {
            WireType::LengthDelimited => decode_varint(&mut rest).map_err(broken)?,
            WireType::Varint => decode_varint(&mut rest).map(|_| 0).map_err(broken)?,
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::StartGroup | WireType::EndGroup => return Err(broken("it has groups")),
        };
        let length = (bytes.len() - rest.len()) as u64;
        let whole = length.checked_add(body).ok_or_else(|| broken("a field has no end"))?;
        Ok(Self { tag, whole, length, is_bytes: kind == WireType::LengthDelimited })
    }
}

fn broken(error: impl Display) -> Status {
    Status::data_loss(format!("the container runtime's list cannot be read: {error}"))
}

#[cfg(test)]
mod tests;
