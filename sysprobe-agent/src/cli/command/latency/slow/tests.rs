//! Which requests are shown, and how they look.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::cli::fixture::pod::window;
use crate::cli::fixture::workload;
use crate::cli::target::Target;
use crate::snapshot::{Culprit, SlowSample};

const MS: u64 = 1_000_000;

fn hog() -> Culprit {
    Culprit { namespace: "batch".to_owned(), pod: "hog".to_owned(), container: String::new() }
}

/// A request that waited for a CPU most of the time.
fn request(pod: &str, read_ns: u64, took_ns: u64) -> SlowRequest {
    let waited = took_ns - 2 * MS;
    SlowRequest {
        workload: workload("shop", pod, "server"),
        read_ns,
        took_ns,
        protocol: "tcp".to_owned(),
        peer: Some(IpAddr::V4(Ipv4Addr::new(10, 244, 1, 9))),
        peer_port: 40_123,
        port: 8080,
        pid: 70,
        tid: 71,
        thread: "nginx\x1b[2J".to_owned(),
        stages: vec![
            ("device_to_tcp".to_owned(), 1000),
            ("tcp_to_wakeup".to_owned(), MS - 1000),
            ("wakeup_to_run".to_owned(), waited),
            ("run_to_read".to_owned(), MS),
        ],
        occupants: vec![
            Occupant { who: Who::Workload(hog()), ns: waited - MS },
            Occupant { who: Who::Kernel, ns: MS },
        ],
    }
}

/// The slow requests of `web` between two snapshots that are two seconds apart.
fn found(requests: Vec<SlowRequest>, lost: [u64; 2]) -> Slow {
    let (mut earlier, mut later) = window();
    let sample = |lost, requests| Some(SlowSample { from_ns: 10 * MS, lost, requests });
    earlier.slow = sample(lost[0], Vec::new());
    later.slow = sample(lost[1], requests);
    let target = Target {
        who: Culprit { namespace: "shop".to_owned(), pod: "web".to_owned(), container: String::new() },
        container: None,
    };
    Slow::of(&earlier, &later, &target).expect("it was asked for")
}

fn text(slow: &Slow, width: Width) -> String {
    let form = Form { width, color: false, position: String::new() };
    slow.lines(&form).iter().map(|line| line.to_string() + "\n").collect()
}

/// The end of the fixture's windows.
fn end() -> u64 {
    window().1.monotonic_ns
}

#[test]
fn the_slowest_comes_first_with_who_had_its_cpu() {
    let one = |ago, took| request("web", end() - ago, took);
    let slow = found(vec![one(3, 12 * MS), one(2, 40 * MS), request("other", end(), 50 * MS)], [5, 7]);
    insta::assert_snapshot!(text(&slow, Width::Full));
    let narrow = text(&slow, Width::Columns(60));
    assert!(narrow.lines().skip(2).all(|line| line.chars().count() <= 60), "{narrow}");
}

#[test]
fn a_script_gets_each_once() {
    let before = window().0.monotonic_ns;
    let slow = found(
        vec![
            request("web", before, 12 * MS),
            request("web", before + 1, 13 * MS),
            request("web", end(), 14 * MS),
            request("web", end() + 1, 15 * MS),
        ],
        [0, 0],
    );
    let took: Vec<_> = slow.in_window().map(|one| one.took_ns).collect();
    assert_eq!(took, [14 * MS, 13 * MS]);
    assert!(text(&slow, Width::Full).contains("12.0ms"), "a person sees those before the window, too");
}

#[test]
fn nothing_is_said_to_be_nothing() {
    assert_eq!(text(&found(Vec::new(), [0, 0]), Width::Full), "Read recently, 10.0ms or longer: nothing\n");
}

#[test]
fn not_more_than_can_be_read() {
    let slow = found(vec![request("web", end(), 12 * MS); 50], [0, 0]);
    let text = text(&slow, Width::Full);
    assert!(text.starts_with("Read recently, 10.0ms or longer, the slowest 20 of 50\n"), "{text}");
    assert_eq!(text.lines().count(), 2 + 2 * SHOWN);
}

#[test]
fn who_did_not_ask_gets_none() {
    let (earlier, later) = window();
    let target = Target { who: hog(), container: None };
    assert_eq!(Slow::of(&earlier, &later, &target), None);
}
