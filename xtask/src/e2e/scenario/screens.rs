//! Pictures of the terminal for the documentation: the real command in a real terminal (tmux), beside pods
//! that give it data. They show live data, so each run makes different ones. The agent's answers are recorded
//! too: the terminal's tests replay them, so that their screens can be compared.

mod shop;

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::e2e::agent::{self, Access, Agent};
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::{places, wait};
use crate::{apt, cmd, paths};

const NAME: &str = "screens";
/// The pod's page is longer than the usual screen, and the table with its trend is wider.
const USUAL: (u16, u16) = (100, 24);
const LONG: (u16, u16) = (100, 46);
const WIDE: (u16, u16) = (132, 24);

/// How long the recorded window is.
const RECORDED: Duration = Duration::from_secs(2);

/// One picture to take.
struct Shot {
    /// The name of its file.
    name: &'static str,
    size: (u16, u16),
    words: &'static [&'static str],
    keys: &'static [&'static str],
    /// Whether everything that the picture is for is on the screen.
    is_complete: fn(&str) -> bool,
}

const SHOTS: [Shot; 9] = [
    Shot { name: "top", size: WIDE, words: &["top"], keys: &["j"], is_complete: has_trend },
    Shot {
        name: "expanded",
        size: USUAL,
        words: &["top", "--filter", "checkout"],
        keys: &["j", "x"],
        is_complete: |screen| screen.contains("  sidecar"),
    },
    Shot {
        name: "pod",
        size: LONG,
        words: &["top", "--filter", "checkout"],
        keys: &["Enter"],
        is_complete: names_culprit,
    },
    Shot {
        name: "latency",
        size: WIDE,
        words: &["top", "--view", "latency"],
        keys: &[],
        is_complete: has_trend,
    },
    Shot { name: "io", size: USUAL, words: &["io"], keys: &[], is_complete: has_trend },
    Shot {
        name: "stages",
        size: USUAL,
        words: &["latency", "shop/web"],
        keys: &[],
        is_complete: |screen| screen.contains("kernel network"),
    },
    Shot { name: "net", size: USUAL, words: &["net"], keys: &[], is_complete: has_trend },
    Shot {
        name: "blame",
        size: USUAL,
        words: &["blame", "shop/checkout"],
        keys: &[],
        is_complete: names_culprit,
    },
    Shot { name: "use", size: USUAL, words: &["use"], keys: &[], is_complete: names_culprit },
];

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    apt::ensure(&["tmux", "curl"], "The pictures are taken of a real terminal")?;
    shop::start(rig)?;
    let agent = Agent::start(&rig.access, agent::AUTO)?;
    for shot in SHOTS {
        report.check(NAME, shot.name, take(&rig.access, &shot).with_context(|| shot.name));
    }
    report.check(NAME, "a recording for the terminal's tests", record());
    agent.stop()?;
    shop::end()
}

/// Records the first window of everything, two seconds long.
fn record() -> Result<String> {
    let directory = paths::root().join("sysprobe-agent/tests/screens");
    fs::create_dir_all(&directory)?;
    // The kernel measures its BPF programs only after the first request.
    agent::snapshot()?;
    let earlier = agent::snapshot()?;
    thread::sleep(RECORDED);
    let later = agent::snapshot()?;
    for (name, snapshot) in [("earlier", earlier), ("later", later)] {
        let snapshot: Value = serde_json::from_str(&snapshot).context("reading what the agent says")?;
        fs::write(directory.join(name).with_extension("json"), serde_json::to_string(&snapshot)? + "\n")?;
    }
    Ok(directory.display().to_string())
}

fn take(access: &Access, shot: &Shot) -> Result<String> {
    let line = access.line(shot.words);
    let (width, height) = (shot.size.0.to_string(), shot.size.1.to_string());
    cmd::run(
        tmux(shot, ["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &line])
            .env_remove("NO_COLOR"),
    )?;
    let picture = picture(shot);
    // Ending the server also ends the command in it, whether or not there is a picture.
    cmd::run(&mut tmux(shot, ["kill-server"]))?;
    let directory = paths::root().join("docs/screens");
    fs::create_dir_all(&directory)?;
    let file = directory.join(format!("{}.svg", shot.name));
    fs::write(&file, anstyle_svg::Term::new().render_svg(&picture?))?;
    Ok(format!("docs/screens/{}.svg", shot.name))
}

/// The screen's content, colours included.
fn picture(shot: &Shot) -> Result<String> {
    cmd::run(&mut tmux(shot, ["set-option", "-g", "status", "off"]))?;
    let screen =
        || cmd::capture(&mut tmux(shot, ["capture-pane", "-e", "-p"])).context("the terminal has gone");
    // The first window is shorter than the following ones.
    let is_usual = |screen: &String| screen.lines().next().is_some_and(|line| line.contains("window 2."));
    wait::until("a window of the usual length", || Ok(Some(screen()?).filter(is_usual)))?;
    for key in shot.keys {
        cmd::run(&mut tmux(shot, ["send-keys", key]))?;
    }
    let picture =
        wait::until("what is to be seen", || Ok(Some(screen()?).filter(|screen| (shot.is_complete)(screen))));
    picture.with_context(|| format!("the screen has\n{}", screen().unwrap_or_default()))
}

/// Whether at least one trend shows several intervals.
fn has_trend(screen: &str) -> bool {
    const INTERVALS: usize = 8;
    let shown = |line: &str| line.chars().filter(|char| ('▁'..='█').contains(char)).count();
    screen.lines().any(|line| shown(line) >= INTERVALS)
}

fn names_culprit(screen: &str) -> bool {
    screen.contains(shop::CULPRIT)
}

/// Each picture has its own server: the last one may not have ended yet.
fn tmux<const N: usize>(shot: &Shot, arguments: [&str; N]) -> Command {
    let mut tmux = cmd::tool("tmux");
    tmux.arg("-S").arg(places::state().join(format!("tmux-{}", shot.name))).args(arguments);
    tmux.env_remove("TMUX").env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
    tmux
}
