//! Windows of one workload.

use super::{
    super::fixture::pod::{MS, POD, by_functions, node, pod, proxy, server, target, unit, waiting, window},
    *,
};
use crate::cli::fixture::without;

fn finding(earlier: &Snapshot, later: &Snapshot) -> Finding {
    Finding::of(earlier, later, &target())
}

fn waits(earlier: &Snapshot, later: &Snapshot) -> Waits {
    match finding(earlier, later) {
        Finding::Waited(waits) => waits,
        other => panic!("{other:?}"),
    }
}

fn division(earlier: &Snapshot, later: &Snapshot) -> Division {
    waits(earlier, later).division.expect("these hooks can tell")
}

fn sum(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.seconds).sum()
}

fn seconds_of(division: &Division, cause: Cause) -> f64 {
    division.causes.iter().find(|part| part.cause == cause).expect("every cause is there").seconds
}

fn assert_close(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-9, "{one} {other}");
}

#[test]
fn containers_are_summed_and_the_parts_are_the_whole() {
    let (earlier, later) = window();
    let (waits, division) = (waits(&earlier, &later), division(&earlier, &later));
    assert_eq!(waits.count, 6);
    assert_close(waits.total, 1.0);
    assert_close(sum(&division.causes), waits.total);
    assert_close(division.causes.iter().map(|part| part.share).sum(), 1.0);
    assert_close(seconds_of(&division, Cause::OtherPod), 0.31);
}

#[test]
fn culprits_come_by_time_and_the_nameless_last() {
    let (earlier, later) = window();
    let culprits = division(&earlier, &later).culprits;
    let names: Vec<_> = culprits.iter().map(Part::name).collect();
    let report = "batch-processing/nightly-report-generator-28833120-l4k7d";
    assert_eq!(names, [report, "system.slice/containerd.service", "shop/search-0", "other"]);
    assert_close(culprits[2].seconds, 0.04);
    assert_close(sum(&culprits), 0.31 + 0.12);
}

#[test]
fn one_container_is_counted_by_itself() {
    let (earlier, later) = window();
    let target = Target { who: pod("shop", POD), container: Some("istio-proxy".to_owned()) };
    let finding = Finding::of(&earlier, &later, &target);
    let Finding::Waited(waits) = &finding else { panic!("{finding:?}") };
    assert_eq!(waits.count, 1);
    assert_close(waits.total, 0.01);
}

#[test]
fn only_what_came_in_the_window_counts() {
    let mut more = server();
    more.add(&proxy());
    let (earlier, later) = (node(10, Some(server()), Some(proxy())), node(11, Some(more), Some(proxy())));
    let waits = waits(&earlier, &later);
    assert_eq!(waits.count, 1);
    assert_close(waits.total, 0.01);
    let division = waits.division.expect("these hooks can tell");
    assert_eq!(division.culprits.iter().map(Part::name).collect::<Vec<_>>(), ["shop/search-0"]);
}

/// Interference is read after the waits, and a culprit without a name yet is left for the next time.
#[test]
fn the_parts_are_the_whole_where_they_are_read_at_two_moments() {
    let causes = CausesSample { system_ns: 30 * MS, ..CausesSample::default() };
    let culprits = [(unit("nginx.service"), 30 * MS)];
    for (waits_ns, unknown, total) in [([50 * MS], 0.02, 0.05), ([20 * MS], 0.0, 0.03)] {
        let later = node(12, Some(waiting(&waits_ns, causes, &culprits)), None);
        let waits = waits(&node(10, None, None), &later);
        let division = waits.division.expect("these hooks can tell");
        assert_close(waits.total, total);
        assert_close(sum(&division.causes), total);
        assert_close(seconds_of(&division, Cause::Unknown), unknown);
    }
}

#[test]
fn a_culprit_that_lost_its_name_is_among_the_others() {
    let causes = |system_ns| CausesSample { system_ns, ..CausesSample::default() };
    let before = waiting(&[9 * MS], causes(9 * MS), &[(unit("a.service"), 9 * MS)]);
    let after = waiting(&[9 * MS, 5 * MS], causes(14 * MS), &[(unit("b.service"), 2 * MS)]);
    let division = division(&node(10, Some(before), None), &node(12, Some(after), None));
    let named: Vec<_> = division.culprits.iter().map(|part| (part.name(), part.seconds)).collect();
    assert_eq!(named, [("b.service".to_owned(), 0.002), ("other".to_owned(), 0.003)]);
}

#[test]
fn throttling_that_is_not_seen_is_said() {
    let (earlier, mut later) = window();
    assert_eq!(table::remark(&finding(&earlier, &later)), None);
    let sched = later.domains.iter_mut().find(|domain| domain.name == "sched").expect("it is up");
    sched.unseen = vec![probe::THROTTLE.to_owned(), "tg_unthrottle_up".to_owned()];
    let remark = table::remark(&finding(&earlier, &later)).expect("its causes are wrong");
    assert!(remark.starts_with("Throttling is not measured"), "{remark}");
}

#[test]
fn nothing_is_told_apart_from_not_knowing() {
    let (earlier, later) = window();
    assert_eq!(finding(&earlier, &earlier), Finding::NeverWaited);
    let waits = waits(&by_functions(earlier.clone()), &by_functions(later.clone()));
    assert_eq!((waits.count, waits.division), (6, None));
    assert_close(waits.total, 1.0);
    let off = without(later, "sched", "no BTF");
    assert_eq!(finding(&earlier, &off), Finding::Off("no BTF".to_owned()));
}

#[test]
fn causes_are_called_as_in_the_metric() {
    let names = CausesSample::default().each().map(|(name, _)| name);
    assert_eq!(Cause::EACH.map(Cause::name), names);
}

#[test]
fn every_cause_has_its_own_letter_and_colour() {
    let mut letters = Cause::EACH.map(|cause| cause.mark().letter).to_vec();
    let mut colours = Cause::EACH.map(|cause| format!("{:?}", cause.mark().style().bg)).to_vec();
    letters.sort_unstable();
    letters.dedup();
    colours.sort();
    colours.dedup();
    assert_eq!((letters.len(), colours.len()), (8, 8));
}
