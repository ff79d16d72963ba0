//! The golden file: its text, and the merging of several boots.

use super::super::report::{Cost, Host, Spread};
use super::*;

fn spread(median: f64) -> Spread {
    Spread { median, low: median, high: median }
}

fn program(name: &str, cost: Result<Cost, String>) -> Line {
    Line::Program(Program {
        domain: "sched".to_owned(),
        mode: "tp_btf".to_owned(),
        name: name.to_owned(),
        hook: "sched_switch".to_owned(),
        verified: Some(2153),
        cost,
    })
}

fn boot(steady: f64, added: f64) -> Kernel {
    let cost = Cost { net: spread(steady + 50.0), steady, empty: 48.0, runs: 2.0 };
    let lines = [
        Line::Host(Host { release: "6.12.117".to_owned(), cpus: 1 }),
        program("sched_switch_tp", Ok(cost)),
        program("sched_other_tp", Err("no script drives this hook".to_owned())),
        Line::RoundTrip(RoundTrip {
            mode: "tp_btf".to_owned(),
            nothing: 13_116.0,
            empty: spread(184.4),
            product: spread(added),
        }),
        Line::Call(Watched {
            call: "a read".to_owned(),
            with: "tp_btf".to_owned(),
            nothing: 500.0,
            added: spread(added),
        }),
        Line::Refused(Refused {
            domain: "cgroup".to_owned(),
            mode: "fentry".to_owned(),
            reason: "\"no\"".to_owned(),
        }),
    ];
    let objects = [("sched".to_owned(), "0f".to_owned())].into();
    Kernel::of("6.12", &Source { commit: "0123abc (2026-11-23)".to_owned(), objects }, &lines)
}

#[test]
fn counts_are_whole() {
    let kernel = boot(417.4, 1014.6);
    let row = kernel.row("tp_btf", "sched_switch_tp").unwrap();
    assert_eq!((row.instructions, row.verified, row.reason.as_deref()), (Some(417), Some(2153), None));
    let other = kernel.row("tp_btf", "sched_other_tp").unwrap();
    assert_eq!((other.instructions, other.reason.as_deref()), (None, Some("no script drives this hook")));
    assert_eq!(kernel.round_trips, [Trip { mode: "tp_btf".to_owned(), empty: 184, product: 1015 }]);
    assert_eq!(kernel.refusal("cgroup", "fentry"), Some("\"no\""));
    assert_eq!(kernel.refusal("sched", "fentry"), None);
}

#[test]
fn of_several_boots_the_least_counts() {
    let least = Kernel::least(vec![boot(417.0, 3998.0), boot(430.0, 1015.0)]);
    let row = least.row("tp_btf", "sched_switch_tp").unwrap();
    assert_eq!((row.instructions, row.most), (Some(417), Some(430)));
    let same = Kernel::least(vec![boot(417.0, 1.0), boot(417.0, 1.0)]);
    assert_eq!(same.row("tp_btf", "sched_switch_tp").unwrap().most, None);
    assert_eq!(least.round_trip("tp_btf").unwrap().product, 1015);
    assert_eq!(least.call("a read", "tp_btf").map(|call| (call.nothing, call.added)), Some((500, 1015)));
    assert_eq!(least.row("tp_btf", "sched_other_tp").unwrap().instructions, None);
}

#[test]
fn a_file_comes_back_as_it_was_written() {
    let mut golden = Golden::default();
    golden.replace(boot(417.0, 1015.0));
    golden.replace(Kernel { series: "5.10".to_owned(), ..Kernel::default() });
    golden.replace(Kernel { series: "6.1".to_owned(), ..Kernel::default() });
    golden.replace(boot(400.0, 1000.0));
    let series: Vec<&str> = golden.kernels.iter().map(|kernel| &*kernel.series).collect();
    assert_eq!(series, ["5.10", "6.1", "6.12"]);
    assert_eq!(golden.kernel("6.12"), Some(&boot(400.0, 1000.0)));
    let text = golden.to_text();
    assert_eq!(Golden::parse(&text).unwrap(), golden);
    assert!(text.lines().any(|line| line.trim_start().starts_with("{\"domain\":\"sched\"")), "{text}");
    assert!(Golden::parse("[]").is_err());
}

#[test]
fn what_a_short_measurement_leaves_out_is_kept() {
    let mut older = boot(100.0, 10.0);
    older.programs[0].most = Some(200);
    let new = boot(150.0, 12.0).completed_by(&older);
    assert_eq!((new.programs[0].instructions, new.programs[0].most), (Some(100), Some(200)));
    assert_eq!(new.calls, older.calls);
    assert_eq!(boot(250.0, 12.0).completed_by(&older).programs[0].instructions, Some(250));
}

#[test]
fn of_an_attach_mode_that_was_measured_no_old_request_is_kept() {
    let with = |requests: &[(&str, u64)]| {
        let request = |(with, added): &(&str, u64)| Watch {
            call: "a request".to_owned(),
            with: (*with).to_owned(),
            nothing: 1000,
            added: *added,
        };
        Kernel { requests: requests.iter().map(request).collect(), ..boot(100.0, 10.0) }
    };
    let older = with(&[("default: all", 1), ("default: an old name", 2), ("tp_btf: all", 3)]);
    let new = with(&[("default: all", 4)]).completed_by(&older);
    assert_eq!(new.requests, with(&[("default: all", 4), ("tp_btf: all", 3)]).requests);
    assert_eq!(with(&[]).completed_by(&older).requests, older.requests, "nginx is not installed");
}
