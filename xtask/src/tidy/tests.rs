//! Each rule on a text that breaks it and on one that does not.

use super::*;

fn check(name: &str, text: &str) -> Vec<String> {
    faults(Path::new(name), text)
}

#[test]
fn a_good_file_has_no_faults() {
    assert!(check("a/src/lib.rs", "//! What it is.\n\nfn f() {}\n").is_empty());
}

#[test]
fn rust_files_say_what_they_are_for() {
    assert_eq!(
        check("lib.rs", "fn f() {}\n"),
        ["lib.rs: does not start with `//!` and what the file is for"]
    );
    assert!(check("notes.md", "fn f() {}\n").is_empty());
}

#[test]
fn files_stay_short_and_tests_may_be_longer() {
    let text = format!("//! Long.\n{}", "\n".repeat(MAX_LINES));
    assert_eq!(
        check("src/sched.rs", &text),
        [format!("src/sched.rs: has {} lines, more than 400", MAX_LINES + 1)]
    );
    assert!(check("src/sched/tests.rs", &text).is_empty());
    assert!(check("tests/sched.rs", &text).is_empty());
}

#[test]
fn leftovers_are_found_wherever_they_are() {
    for word in FORBIDDEN {
        assert_eq!(
            check("deploy/a.json", &format!("x\ny {word}\n")),
            [format!("deploy/a.json:2: mentions {word}")]
        );
    }
}

#[test]
fn white_space_at_the_end_matters_in_what_people_write() {
    assert_eq!(check(".ci/run", "set -e \n"), [".ci/run:1: ends in white space"]);
    assert!(check("tests/data/cpu.stat", "usage 1 \n").is_empty());
}

#[test]
fn this_repository_is_walked_without_its_products() {
    let files = files(paths::root()).unwrap();
    assert!(files.contains(&paths::root().join("xtask/src/tidy.rs")));
    assert!(!files.iter().any(|file| file.starts_with(paths::root().join("target"))));
}

#[test]
fn prose_is_narrow_and_names_its_subject() {
    let long = "word ".repeat(21);
    assert_eq!(
        check("README.md", &format!("# A\n{}\n", long.trim())),
        ["README.md:2: is longer than 100 columns"]
    );
    assert_eq!(
        check("docs/commands/top.md", "Nobody knows.\n"),
        ["docs/commands/top.md:1: says `nobody`: name the subject"]
    );
    assert!(check("README.md", &format!("```text\n{0}\n```\n| {0} |\n", long.trim())).is_empty());
    assert!(check("docs/rxpath.md", &format!("{}\n", long.trim())).is_empty());
}

#[test]
fn comments_name_their_subject() {
    let code = "//! A.\n/// Whoever asks.\nlet nobody = 0;\n";
    assert_eq!(check("src/a.rs", code), ["src/a.rs:2: says `whoever`: name the subject"]);
    assert_eq!(check("a.yaml", "a: nobody\n# Somebody.\n"), ["a.yaml:2: says `somebody`: name the subject"]);
    assert!(check("a.md", "```text\nnobody\n```\n").is_empty());
}

#[test]
fn rust_is_narrow_in_its_strings_too() {
    let line = |columns: usize| format!("//! A.\n\"{}\"\n", "\u{e4}".repeat(columns - 2));
    assert_eq!(check("src/a.rs", &line(111)), ["src/a.rs:2: is longer than 110 columns"]);
    assert!(check("src/a.rs", &line(110)).is_empty());
}

#[test]
fn a_module_may_have_the_name_of_cargos_directory() {
    let files = files(&paths::root().join("sysprobe-agent/src/cli")).unwrap();
    assert!(files.iter().any(|path| path.ends_with("target/tests.rs")), "{files:?}");
    assert!(is_no_source(paths::root(), OsStr::new("target")));
}
