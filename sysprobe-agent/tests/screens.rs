//! Whole screens of the live views, compared with recorded ones, key by key and at several sizes: the real
//! binary in a real terminal. The agent is a recording of a real one, made with pods by `cargo xtask e2e
//! screens`: live data would make every screen different. `terminal.rs` tests with a live agent.

mod support;

use std::{env, fs};

use support::replay::Replay;
use support::terminal::Terminal;

const EARLIER: &str = include_str!("screens/earlier.json");
const LATER: &str = include_str!("screens/later.json");
/// Waits for a CPU that another pod uses.
const POD: &str = "e2e-blame/victim";
/// Receives, and flushes its writes.
const WEB: &str = "e2e-blame/web";

struct Screens {
    terminal: Terminal,
    _agent: Replay,
}

impl Screens {
    /// Opens the view; with the long interval, it shows one window only.
    fn open(size: (u16, u16), arguments: &[&str]) -> Self {
        let agent = Replay::start(EARLIER, LATER);
        let socket = agent.socket();
        let flags = ["--interval", "1h", "--socket", socket.to_str().expect("UTF-8")];
        let terminal = Terminal::running(size, &[arguments, &flags].concat());
        let screens = Self { terminal, _agent: agent };
        screens.terminal.shows("the first window", |screen| screen[0].contains("window 2.0"));
        screens
    }

    /// Presses the keys, waits for the text, and compares the screen.
    fn compare(&self, keys: &[&str], shows: &str, name: &str) {
        for key in keys {
            self.terminal.press(key);
        }
        self.terminal.shows(shows, |screen| screen.iter().any(|line| line.contains(shows)));
        // A busy machine may draw the rest later.
        let expected = expected(name);
        let screen =
            self.terminal.settles(|screen| expected.as_deref() == Some(without_socket(screen).trim()));
        insta::assert_snapshot!(name, without_socket(&screen));
    }

    fn quit(&self, key: &str) {
        self.terminal.press(key);
        self.terminal.has_line("exit code 0");
    }
}

/// The recorded screen, unless snapshots are being recorded again.
fn expected(name: &str) -> Option<String> {
    if env::var_os("INSTA_UPDATE").is_some() {
        return None;
    }
    let file = format!("{}/tests/snapshots/screens__{name}.snap", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(file).ok()?;
    let (_, screen) = text.strip_prefix("---\n")?.split_once("\n---\n")?;
    Some(screen.trim().to_owned())
}

/// The socket of each test is in its own directory; its path comes last on its line.
fn without_socket(screen: &[String]) -> String {
    let lines =
        screen.iter().map(|line| line.split_once("agent at /").map_or(line.as_str(), |(before, _)| before));
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[test]
fn the_tables_key_by_key() {
    let screens = Screens::open((100, 24), &["top"]);
    screens.compare(&[], POD, "top");
    screens.compare(&["2"], "FSYNC99▼", "top_io");
    screens.compare(&["3"], "SRTT99▼", "top_net");
    screens.compare(&["4"], "RX99▼", "top_latency");
    screens.compare(&["s", "s"], "WAIT99▼", "top_latency_by_wait");
    screens.compare(&["r"], "WAIT99▲", "top_latency_reversed");
    screens.compare(&["1", "/", "v", "i", "c", "t"], "filter: vict", "top_filter");
    screens.compare(&["Enter", "x"], "  spinner", "top_expanded");
    screens.compare(&["X"], "victim/spinner", "top_containers");
    screens.compare(&["X", "a"], "idle shown", "top_idle");
    screens.compare(&["p"], "FROZEN", "top_frozen");
    screens.compare(&["?"], "┌ Help ", "top_help");
    screens.compare(&["End"], "TREND", "top_help_end");
    screens.quit("C-c");
}

#[test]
fn a_pod_on_a_page_key_by_key() {
    let screens = Screens::open((100, 30), &["top", "-l", "app=web"]);
    screens.compare(&["Enter"], "CPU, I/O, network; what it received", "pod");
    screens.compare(&["PgDn"], "CULPRIT", "pod_below");
    screens.compare(&["?"], "┌ Help ", "pod_help");
    screens.compare(&["?", "Escape"], "1 of ", "pod_left");
    screens.quit("q");
}

#[test]
fn every_command_at_two_sizes() {
    let commands: [(&str, &[&str]); 8] = [
        ("io", &["io"]),
        ("net", &["net", "--all"]),
        ("latency_view", &["top", "--view", "latency"]),
        ("blame", &["blame", POD]),
        ("latency", &["latency", WEB]),
        ("latency_slow", &["latency", WEB, "--slow", "1ms"]),
        ("use", &["use"]),
        ("probes", &["probes"]),
    ];
    for (name, arguments) in commands {
        for (width, height) in [(80, 24), (132, 43)] {
            let screens = Screens::open((width, height), arguments);
            screens.compare(&[], "q quit", &format!("{name}_{width}x{height}"));
            screens.quit("q");
        }
    }
}

#[test]
fn what_has_other_keys() {
    let screens = Screens::open((100, 24), &["probes"]);
    screens.compare(&["s"], "▼", "probes_sorted");
    screens.compare(&["?"], "┌ Help ", "probes_help");
    screens.quit("C-c");
    let screens = Screens::open((100, 24), &["use"]);
    screens.compare(&["End"], "network", "use_end");
    screens.compare(&["?"], "┌ Help ", "use_help");
    screens.quit("C-c");
}

#[test]
fn a_namespace_that_has_no_pods() {
    let screens = Screens::open((80, 24), &["top", "-n", "nowhere"]);
    screens.compare(&[], "No pod here", "top_nowhere");
    screens.quit("q");
}

#[test]
fn a_terminal_that_changes_its_size() {
    let screens = Screens::open((132, 43), &["blame", POD]);
    for (width, height) in [(80, 24), (40, 10), (30, 6)] {
        // tmux crops the old screen at once and tells the program later. What the program draws until then
        // is garbled, so only the last screen counts.
        screens.terminal.resize((width, height));
        screens.compare(&[], "? help", &format!("blame_resized_{width}x{height}"));
    }
    screens.quit("q");
}

#[test]
fn colour_is_left_out_where_it_is_not_wanted() {
    let with = Screens::open((100, 24), &["top"]);
    with.terminal.shows(POD, |screen| screen.iter().any(|line| line.contains(POD)));
    let without = Screens::open((100, 24), &["top", "--no-color"]);
    without.terminal.shows(POD, |screen| screen.iter().any(|line| line.contains(POD)));
    assert!(has_colour(&with.terminal.styled()), "an alarm is yellow");
    assert!(!has_colour(&without.terminal.styled()));
}

/// Whether there are foreground or background colour codes: 30 to 49 and 90 to 107.
fn has_colour(styled: &str) -> bool {
    let codes = styled
        .split("\x1b[")
        .skip(1)
        .filter_map(|rest| rest.split_once('m'))
        .flat_map(|(codes, _)| codes.split(';'));
    codes
        .filter_map(|code| code.parse::<u8>().ok())
        .any(|code| (30..=38).contains(&code) || (40..=48).contains(&code) || (90..=107).contains(&code))
}
