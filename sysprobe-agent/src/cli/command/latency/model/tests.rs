//! Windows of one workload.

use super::*;
use crate::cli::fixture::pod::{POD, node, pod, received, receiving, requests, target, window};
use crate::cli::fixture::without;

fn paths(earlier: &Snapshot, later: &Snapshot) -> Vec<Path> {
    match Finding::of(earlier, later, &target()) {
        Finding::Received(paths) => paths,
        other => panic!("{other:?}"),
    }
}

fn path_of(stages: &[(&str, &[u64])]) -> Path {
    let later = receiving(node(12, None, None), &received("tcp", stages));
    paths(&node(10, None, None), &later).remove(0)
}

fn assert_close(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-9, "{one} {other}");
}

fn assert_whole(path: &Path) {
    assert_close(path.stages.iter().map(|stage| stage.times.sum).sum(), path.total.sum);
    assert_close(path.stages.iter().map(|stage| stage.share).sum(), 1.0);
    assert_close(path.sums.iter().map(|sum| sum.seconds).sum(), path.total.sum);
    assert_close(path.sums.iter().map(|sum| sum.share).sum(), 1.0);
    assert!(path.stages.iter().all(|stage| stage.times.count == path.total.count), "{path:?}");
}

fn seconds_of(path: &Path) -> Vec<(Whose, f64)> {
    path.sums.iter().map(|sum| (sum.whose, (sum.seconds * 1e9).round())).collect()
}

#[test]
fn stages_and_sums_are_the_whole() {
    let (earlier, later) = window();
    let paths = paths(&earlier, &later);
    assert_eq!(paths.iter().map(|path| path.protocol.as_str()).collect::<Vec<_>>(), ["tcp", "udp"]);
    paths.iter().for_each(assert_whole);
    let [tcp, udp] = &paths[..] else { panic!("{paths:?}") };
    assert_eq!((tcp.total.count, udp.total.count), (3, 2));
    assert_eq!(
        seconds_of(tcp),
        [(Whose::Network, 74e3), (Whose::Scheduler, 12_009e3), (Whose::Application, 913e3)]
    );
    assert_eq!(seconds_of(udp), [(Whose::Network, 17e3), (Whose::Reader, 50e3)]);
}

#[test]
fn what_a_kernel_cannot_tell_apart_is_the_readers() {
    let merged = path_of(&[("device_to_tcp", &[10]), ("tcp_to_ready", &[20]), ("ready_to_read", &[70])]);
    assert_whole(&merged);
    assert_eq!(seconds_of(&merged), [(Whose::Network, 30.0), (Whose::Reader, 70.0)]);
    // A single separate stage does not tell the owners of the others.
    let partly = path_of(&[("device_to_ready", &[10]), ("ready_to_run", &[20]), ("run_to_read", &[70])]);
    assert_whole(&partly);
    assert_eq!(seconds_of(&partly), [(Whose::Network, 10.0), (Whose::Reader, 90.0)]);
}

#[test]
fn no_time_at_all_is_no_share() {
    let path = path_of(&[("device_to_tcp", &[0]), ("tcp_to_read", &[0])]);
    assert_eq!(path.total.count, 1);
    let shares = path.stages.iter().map(|stage| stage.share).chain(path.sums.iter().map(|sum| sum.share));
    assert_close(shares.sum(), 0.0);
}

#[test]
fn only_what_came_in_the_window_counts() {
    let mut more = requests();
    more.add(&received("udp", &[("device_to_udp", &[5_000]), ("udp_to_read", &[5_000])]));
    let earlier = receiving(node(10, None, None), &requests());
    let paths = paths(&earlier, &receiving(node(11, None, None), &more));
    assert_eq!(paths.len(), 1, "nothing came by TCP");
    assert_eq!((paths[0].protocol.as_str(), paths[0].total.count), ("udp", 1));
    assert_close(paths[0].total.sum, 10e-6);
}

#[test]
fn what_is_read_meanwhile_leaves_the_parts_the_whole() {
    let mut torn = received("tcp", &[("device_to_tcp", &[10]), ("tcp_to_read", &[30])]);
    torn.protocols.get_mut("tcp").expect("it is there").total.sum_ns = 90;
    let later = receiving(node(12, None, None), &torn);
    assert_whole(&paths(&node(10, None, None), &later)[0]);
}

#[test]
fn nothing_is_told_apart_from_not_knowing() {
    let (earlier, later) = window();
    assert_eq!(Finding::of(&later, &later, &target()), Finding::Nothing);
    let proxy = Target { who: pod("shop", POD), container: Some("istio-proxy".to_owned()) };
    assert_eq!(Finding::of(&earlier, &later, &proxy), Finding::Nothing);
    let off = without(later, "rxpath", "no BTF");
    assert_eq!(Finding::of(&earlier, &off, &target()), Finding::Off("no BTF".to_owned()));
}

#[test]
fn whose_a_stage_is_has_a_letter_that_no_cause_has() {
    let causes = crate::cli::waits::Cause::EACH.map(|cause| cause.mark().letter);
    let mut letters = Whose::ALL.map(|whose| whose.mark().letter).to_vec();
    assert!(letters.iter().all(|letter| !causes.contains(letter)), "{letters:?}");
    letters.sort_unstable();
    letters.dedup();
    assert_eq!(letters.len(), 4);
}
