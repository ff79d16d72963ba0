//! The plain form.

use crate::{
    blame::Blame,
    show::{
        Width,
        fixture::{
            live::plain,
            pod::{by_functions, gone, node, pod, target, window},
        },
        format,
        page::GONE,
        target::Target,
    },
    snapshot::Snapshot,
};

fn text(earlier: &Snapshot, later: &Snapshot, target: &Target, width: Width) -> String {
    plain::<Blame>(earlier, later, target, width)
}

fn at(columns: usize) -> String {
    let (earlier, later) = window();
    text(&earlier, &later, &target(), Width::Columns(columns))
}

#[test]
fn a_window_at_several_widths() {
    insta::assert_snapshot!("eighty", at(80));
    insta::assert_snapshot!("forty", at(40));
    let (earlier, later) = window();
    insta::assert_snapshot!("full", text(&earlier, &later, &target(), Width::Full));
}

#[test]
fn nothing_is_wider_than_asked_for() {
    for columns in 60..=200 {
        let text = at(columns);
        assert!(text.lines().all(|line| format::width(line) <= columns), "{columns}: {text}");
    }
}

#[test]
fn what_cannot_be_shown_is_said_in_a_line() {
    let line = |earlier: &Snapshot, later: &Snapshot, target: &Target| {
        let text = text(earlier, later, target, Width::Columns(80));
        text.lines().skip(1).collect::<Vec<_>>().join("\n")
    };
    let (earlier, later) = window();
    assert_eq!(line(&earlier, &earlier, &target()), "It did not wait for a CPU in this window.");
    assert_eq!(
        line(&by_functions(earlier.clone()), &by_functions(later.clone()), &target()),
        "Waited 500 ms/s for a CPU: 6 waits, p50 40.5ms, p99 459ms.\n\
         What for is not known: fentry hooks cannot tell, tp_btf and raw_tp can."
    );
    assert!(line(&later, &gone(node(14, None, None)), &target()).starts_with(GONE));
    let never = Target { who: pod("shop", "never"), container: None };
    let text = text(&earlier, &later, &never, Width::Columns(80));
    assert_eq!(text, "shop/never has gone\n");
}
