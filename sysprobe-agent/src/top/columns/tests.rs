//! Which columns fit which width.

use super::*;

fn titles(width: usize, wide: bool) -> (usize, Vec<&'static str>) {
    let layout = Layout::fit(width, wide);
    (layout.name, layout.columns.iter().map(|column| column.title).collect())
}

#[test]
fn eighty_columns_hold_every_ordinary_one() {
    let (name, titles) = titles(80, false);
    assert_eq!(titles, ["CPU", "THROT", "WAIT50", "WAIT99", "WAITMAX", "SWITCH", "INVOL"]);
    assert_eq!(name, 27);
}

#[test]
fn narrow_screens_lose_columns_by_rank() {
    assert_eq!(titles(40, false), (19, vec!["CPU", "THROT", "WAIT99"]));
    assert_eq!(titles(30, false), (16, vec!["CPU", "WAIT99"]));
    assert_eq!(titles(10, false), (10, vec![]));
    assert_eq!(titles(0, false), (0, vec![]));
}

#[test]
fn extra_columns_come_with_space_or_on_request() {
    assert_eq!(titles(120, false).1.len(), 10);
    assert_eq!(titles(120, true).1.len(), 12);
    assert_eq!(titles(300, false), (LONGEST_NAME, COLUMNS.iter().map(|column| column.title).collect()));
}

#[test]
fn titles_and_markers_fit() {
    for column in &COLUMNS {
        let marker = usize::from(column.sort.is_some());
        assert!(column.title.len() + marker <= column.width, "{}", column.title);
    }
}

#[test]
fn ranks_and_sort_keys_are_unique_and_complete() {
    use clap::ValueEnum as _;
    let ranks: std::collections::BTreeSet<_> = COLUMNS.iter().map(|column| column.rank).collect();
    assert_eq!(ranks.len(), COLUMNS.len());
    for key in SortKey::value_variants() {
        let columns = COLUMNS.iter().filter(|column| column.sort == Some(*key)).count();
        assert_eq!(columns, usize::from(*key != SortKey::Name), "{key:?}");
    }
}
