//! Objects with programs that every verifier rejects: the real ones, with a first instruction that reads an
//! uninitialised register.

use std::fs;
use std::path::Path;

use object::{File, Object, ObjectSection, ObjectSymbol};
use tempfile::TempDir;

/// The verifier's message about such a program.
pub(crate) const REFUSAL: &str = "R9 !read_ok";
/// `r0 = r9`.
const BAD: [u8; 8] = [0xbf, 0x90, 0, 0, 0, 0, 0, 0];
const BUILT: &str = env!("SYSPROBE_EBPF");

/// A directory with all objects, in which each of these (object, program) pairs is broken.
pub(crate) fn broken(programs: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for file in ["cgroup.o", "sched.o", "sched_hash.o"] {
        let path = Path::new(BUILT).join(file);
        let mut bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (_, program) in programs.iter().filter(|(object, _)| *object == file) {
            let start = first_instruction(&bytes, program);
            bytes[start..start + BAD.len()].copy_from_slice(&BAD);
        }
        fs::write(directory.path().join(file), bytes).expect("written");
    }
    directory
}

/// The file offset of a program's first instruction.
fn first_instruction(bytes: &[u8], program: &str) -> usize {
    let object = File::parse(bytes).expect("an object");
    let symbol = object.symbols().find(|symbol| symbol.name() == Ok(program));
    let symbol = symbol.unwrap_or_else(|| panic!("no program {program}"));
    let section = symbol.section_index().expect("it is defined here");
    let section = object.section_by_index(section).expect("a section");
    // The loader would overwrite the instruction with a relocation.
    assert!(section.relocations().all(|(at, _)| at != symbol.address()), "{program} begins with a map");
    let (start, _) = section.file_range().expect("it has bytes");
    usize::try_from(start + symbol.address()).expect("small")
}
