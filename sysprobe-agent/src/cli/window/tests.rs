//! Whole runs over a scripted source.

use std::io;

use super::*;

/// A pipe that its reader has closed, or a full disk.
struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    assert!(!write_out(&mut Broken(io::ErrorKind::BrokenPipe), "text").unwrap());
    assert!(write_out(&mut Vec::new(), "text").unwrap());
}

#[test]
fn a_full_disk_is_an_error() {
    let error = write_out(&mut Broken(io::ErrorKind::StorageFull), "text").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn every_warning_is_a_line_of_its_own() {
    let mut err = Vec::new();
    warn(&mut err, &["one thing".to_owned(), "another".to_owned()]);
    assert_eq!(String::from_utf8(err).unwrap(), "sysprobe: one thing.\nsysprobe: another.\n");
}
