//! Whole runs over a scripted source.

use std::io;

use super::*;

/// A pipe whose reader has gone, or a full disk.
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
