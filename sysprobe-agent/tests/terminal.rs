//! The live views of the real binary in a real terminal (tmux), key by key and at several sizes.

mod support;

use support::agent::Agent;
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::terminal::Terminal;

/// A workload with numbers in every window, and an agent that knows it.
struct Scene {
    agent: Agent,
    cgroup: Cgroup,
    _load: Load,
}

impl Scene {
    fn new(name: &str) -> Self {
        let agent = Agent::start();
        let cgroup = Cgroup::new(name);
        let load = Load::running(&cgroup, &cpus(), process::sleep_often);
        Self { agent, cgroup, _load: load }
    }

    fn open(&self, size: (u16, u16), arguments: &[&str]) -> Terminal {
        let socket = self.agent.socket().to_str().expect("UTF-8");
        let interval = ["--interval", "500ms", "--socket", socket];
        Terminal::running(size, &[arguments, &interval].concat())
    }
}

/// Asserts that the screen has no more lines and no longer lines than its size allows.
fn assert_fits(screen: &[String], (width, height): (u16, u16)) {
    assert!(screen.len() <= height.into(), "{} lines: {screen:#?}", screen.len());
    for line in screen {
        assert!(line.chars().count() <= width.into(), "{line}");
    }
}

fn has(screen: &[String], text: &str) -> bool {
    screen.iter().any(|line| line.contains(text))
}

#[test]
fn top_key_by_key() {
    let size = (120, 30);
    let scene = Scene::new("terminal-keys");
    let terminal = scene.open(size, &["top", "--filter", &scene.cgroup.name]);
    let tail = &scene.cgroup.name[scene.cgroup.name.len() - 8..];
    let named = |screen: &[String]| screen.iter().skip(2).any(|line| line.contains(tail));
    let screen = terminal.shows("the workload in the table", |screen| named(screen));
    assert!(screen[0].starts_with("sysprobe top  1 of ") && has(&screen, "WAIT99"), "{screen:#?}");
    assert!(screen.last().expect("a footer").starts_with("? help  q quit"), "{screen:#?}");
    assert_fits(&screen, size);
    for (key, command, column) in [
        ("2", "sysprobe io", "FSYNC99▼"),
        ("3", "sysprobe net", "SRTT99▼"),
        ("4", "sysprobe top --view latency", "RX99▼"),
        ("1", "sysprobe top", "CPU▼"),
        ("Tab", "sysprobe io", "FSYNC99▼"),
        ("c", "sysprobe top", "CPU▼"),
    ] {
        terminal.press(key);
        let screen = terminal.shows(column, |screen| screen[0].starts_with(command) && has(screen, column));
        assert_fits(&screen, size);
    }
    terminal.press("s");
    terminal.shows("another order", |screen| has(screen, "THROT▼"));
    terminal.press("r");
    terminal.shows("the reverse order", |screen| has(screen, "THROT▲"));
    terminal.press("p");
    terminal.shows("that it is frozen", |screen| screen[0].contains("FROZEN"));
    terminal.press("p");
    terminal.shows("that it goes on", |screen| !screen[0].contains("FROZEN"));
    terminal.press("?");
    terminal.shows("the help", |screen| has(screen, "┌ Help ") && has(screen, "Enter"));
    terminal.press("x");
    terminal.shows("the table again", |screen| !has(screen, "┌ Help ") && named(screen));
    terminal.press("+");
    terminal.shows("a longer interval", |screen| screen[0].contains("every 1.00s"));
    terminal.press("q");
    terminal.has_line("exit code 0");
}

#[test]
fn a_workload_is_opened_and_left() {
    let scene = Scene::new("terminal-open");
    let terminal = scene.open((100, 40), &["top", "--filter", &scene.cgroup.name]);
    terminal.shows("the workload", |screen| {
        screen[0].contains("1 of ") && screen.len() > 2 && !has(screen, "not over")
    });
    terminal.press("Enter");
    let screen = terminal.has_line("CPU, I/O, network; what it received; why it waited.");
    assert!(screen[0].contains(&scene.cgroup.name), "{screen:#?}");
    let screen = terminal.has_line("Waited ");
    assert!(has(&screen, "FSYNC99") && has(&screen, "SRTT99") && has(&screen, "CAUSE"), "{screen:#?}");
    assert_fits(&screen, (100, 40));
    terminal.resize((60, 12));
    let small = terminal.shows("where it is", |screen| has(screen, "Lines 1-"));
    assert_fits(&small, (60, 12));
    terminal.press("End");
    terminal.shows("its end", |screen| has(screen, "unknown"));
    terminal.press("Escape");
    terminal.shows("the table", |screen| screen[0].contains("1 of "));
    terminal.press("C-c");
    terminal.has_line("exit code 0");
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let scene = Scene::new("terminal-filter");
    let terminal = scene.open((80, 24), &["top", "--all"]);
    terminal.shows("the table", |screen| screen[0].contains(" of "));
    for key in ["/", "n", "o", "-", "s", "u", "c", "h"] {
        terminal.press(key);
    }
    terminal.shows("no workload", |screen| {
        has(screen, "No workload matches the filter") && has(screen, "filter: no-such")
    });
    terminal.press("Enter");
    terminal.shows("the filter above", |screen| screen[0].contains("filter `no-such`"));
    terminal.press("/");
    terminal.press("Escape");
    terminal.shows("all again", |screen| !has(screen, "No workload matches"));
    terminal.press("q");
    terminal.has_line("exit code 0");
}

#[test]
fn every_view_fits_every_size() {
    let scene = Scene::new("terminal-sizes");
    let name = scene.cgroup.name.as_str();
    let views: [&[&str]; 6] =
        [&["top"], &["net"], &["use"], &["probes"], &["blame", name], &["latency", name]];
    for arguments in views {
        let terminal = scene.open((80, 24), arguments);
        let command = format!("sysprobe {}", arguments[0]);
        let is_there = |screen: &[String]| screen[0].starts_with(&command) && !has(screen, "not over yet");
        terminal.shows(&command, is_there);
        for size in [(80, 24), (132, 43), (40, 10), (20, 5), (80, 24)] {
            terminal.resize(size);
            let drawn = |screen: &[String]| {
                screen.len() == usize::from(size.1) && screen[0].starts_with(&command[..8])
            };
            let screen = terminal.shows(&format!("{command} at {size:?}"), drawn);
            assert_fits(&screen, size);
        }
        terminal.press("q");
        terminal.has_line("exit code 0");
    }
}
