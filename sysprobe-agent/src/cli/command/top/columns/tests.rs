//! Which columns fit which width.

use super::{super::views::View, *};

const PLAIN: Form = Form { wide: false, live: false };
const WIDE: Form = Form { wide: true, live: false };
const LIVE: Form = Form { wide: false, live: true };

fn by(view: View, sort: SortKey) -> Selection {
    Selection { view, sort, ..Selection::default() }
}

fn fit(width: usize, view: View, form: Form) -> (usize, Vec<&'static str>) {
    titles(&Layout::fit(width, &by(view, view.default_sort()), form))
}

fn titles(layout: &Layout) -> (usize, Vec<&'static str>) {
    (layout.name, layout.columns.iter().map(|placed| placed.column.title).collect())
}

fn trend(width: usize) -> usize {
    let layout = Layout::fit(width, &by(View::Io, SortKey::Fsync99), LIVE);
    layout.columns.iter().find(|placed| placed.column.title == "TREND").expect("it is shown").width
}

#[test]
fn eighty_columns_hold_every_ordinary_one() {
    let (name, titles) = fit(80, View::Cpu, PLAIN);
    assert_eq!(titles, ["CPU", "THROT", "WAIT50", "WAIT99", "WAITMAX", "SWITCH", "INVOL"]);
    assert_eq!(name, 27);
    let (name, titles) = fit(80, View::Io, PLAIN);
    assert_eq!(titles, ["READ99", "WRITE/s", "WRITE99", "FSYNC/s", "FSYNC99", "DISK99", "ERR/s"]);
    assert_eq!(name, 21);
}

#[test]
fn narrow_screens_lose_columns_by_rank() {
    assert_eq!(fit(40, View::Cpu, PLAIN), (19, vec!["CPU", "THROT", "WAIT99"]));
    assert_eq!(fit(30, View::Cpu, PLAIN), (16, vec!["CPU", "WAIT99"]));
    assert_eq!(fit(45, View::Io, PLAIN), (19, vec!["FSYNC/s", "FSYNC99", "DISK99"]));
    assert_eq!(fit(45, View::Io, LIVE), (19, vec!["FSYNC99", "TREND"]));
}

#[test]
fn the_column_sorted_by_is_there_at_any_width() {
    for view in View::ALL {
        for sort in view.sort_keys().into_iter().filter(|sort| *sort != SortKey::Name) {
            for (width, form) in
                [0, 5, 20, 40, 80, 120, 300].into_iter().flat_map(|w| [(w, PLAIN), (w, LIVE)])
            {
                let layout = Layout::fit(width, &by(view, sort), form);
                let is_there = layout.columns.iter().any(|placed| placed.column.sort == Some(sort));
                assert!(is_there, "{sort:?} at {width}");
            }
        }
    }
    let (name, titles) = titles(&Layout::fit(80, &by(View::Cpu, SortKey::Fsync99), PLAIN));
    assert_eq!(titles, ["CPU", "THROT", "WAIT50", "WAIT99", "WAITMAX", "SWITCH", "INVOL", "FSYNC99"]);
    assert_eq!(name, 18);
}

#[test]
fn by_name_no_column_comes_before_the_name() {
    let layout = |width| titles(&Layout::fit(width, &by(View::Cpu, SortKey::Name), PLAIN));
    assert_eq!(layout(10), (10, vec![]));
    assert_eq!(layout(0), (0, vec![]));
}

#[test]
fn extra_columns_come_with_space_or_on_request() {
    assert_eq!(fit(120, View::Cpu, PLAIN).1.len(), 10);
    assert_eq!(fit(120, View::Cpu, WIDE).1.len(), 13);
    assert_eq!(fit(300, View::Cpu, PLAIN).0, LONGEST_NAME);
    for view in View::ALL {
        let everything = titles(&Layout::everything(LONGEST_NAME, &by(view, SortKey::Name)));
        assert_eq!(fit(300, view, PLAIN), everything);
    }
}

#[test]
fn a_trend_is_live_and_takes_what_the_name_can_spare() {
    assert!(!fit(300, View::Io, WIDE).1.contains(&"TREND"));
    assert_eq!(trend(80), 16);
    assert_eq!(trend(230), 28);
    assert_eq!(trend(300), sparkline::WINDOWS);
    assert_eq!(fit(230, View::Io, LIVE).0, ROOMY_NAME);
}

#[test]
fn titles_and_markers_fit() {
    for column in View::ALL.into_iter().flat_map(View::columns) {
        let marker = usize::from(column.sort.is_some());
        assert!(column.title.len() + marker <= column.width, "{}", column.title);
    }
}

#[test]
fn ranks_and_sort_keys_are_unique_and_complete() {
    use clap::ValueEnum as _;
    for columns in View::ALL.map(View::columns) {
        let ranks: std::collections::BTreeSet<_> = columns.iter().map(|column| column.rank).collect();
        assert_eq!(ranks.len(), columns.len());
        for key in SortKey::value_variants() {
            assert!(columns.iter().filter(|column| column.sort == Some(*key)).count() <= 1, "{key:?}");
        }
    }
    for key in SortKey::value_variants() {
        let is_sorted = View::ALL.into_iter().flat_map(View::columns).any(|column| column.sort == Some(*key));
        assert_eq!(is_sorted, *key != SortKey::Name, "{key:?}");
    }
}
