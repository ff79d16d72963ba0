//! Archives in the format of the kernel's initramfs: cpio "newc".
//!
//! The format is simple: a header of hexadecimal numbers, a name and the content, each padded to four bytes.

/// Type bits of a file's mode.
const DIRECTORY: u32 = 0o04_0000;
const FILE: u32 = 0o10_0000;
const CHARACTER_DEVICE: u32 = 0o02_0000;

/// An archive being written.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

/// The header fields of an entry, except for its sizes.
struct Entry<'a> {
    name: &'a str,
    mode: u32,
    device: (u32, u32),
    content: &'a [u8],
}

impl Archive {
    pub(super) fn directory(&mut self, name: &str) {
        self.add(&Entry { name, mode: DIRECTORY | 0o755, device: (0, 0), content: &[] });
    }

    /// Adds an executable file.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        self.add(&Entry { name, mode: FILE | 0o755, device: (0, 0), content });
    }

    pub(super) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.add(&Entry { name, mode: CHARACTER_DEVICE | 0o600, device: (major, minor), content: &[] });
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.add(&Entry { name: "TRAILER!!!", mode: 0, device: (0, 0), content: &[] });
        self.bytes
    }

    fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        let (major, minor) = entry.device;
        let size = length(entry.content);
        // Inode, mode, user, group, links, time, size, device of the file system, device number, name length,
        // no checksum.
        let fields = [
            self.entries,
            entry.mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            major,
            minor,
            length(entry.name.as_bytes()) + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(entry.name.bytes());
        self.bytes.push(0);
        self.fill();
        self.bytes.extend(entry.content);
        self.fill();
    }

    fn fill(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a module or a program is smaller than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(bytes: &[u8], number: usize) -> u32 {
        let at = 6 + number * 8;
        u32::from_str_radix(std::str::from_utf8(&bytes[at..at + 8]).unwrap(), 16).unwrap()
    }

    #[test]
    fn an_entry_has_a_header_a_name_and_its_content_each_filled_up() {
        let mut archive = Archive::default();
        archive.file("init", b"hello");
        let bytes = archive.finish();
        assert!(bytes.starts_with(b"070701"));
        assert_eq!(field(&bytes, 1), 0o100_755);
        assert_eq!(field(&bytes, 6), 5);
        assert_eq!(field(&bytes, 11), 5);
        // 110 bytes of header and five of name make 115; the content begins at the next multiple of four.
        assert_eq!(&bytes[110..116], b"init\0\0");
        assert_eq!(&bytes[116..124], b"hello\0\0\0");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes.windows(10).any(|window| window == b"TRAILER!!!"));
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn devices_carry_their_numbers_and_inodes_differ() {
        let mut archive = Archive::default();
        archive.device("dev/null", 1, 3);
        archive.directory("dev");
        let bytes = archive.finish();
        assert_eq!((field(&bytes, 1), field(&bytes, 9), field(&bytes, 10)), (0o020_600, 1, 3));
        let second = &bytes[(110 + "dev/null".len() + 1).next_multiple_of(4)..];
        assert_eq!((field(second, 0), field(second, 1)), (2, 0o040_755));
    }
}
