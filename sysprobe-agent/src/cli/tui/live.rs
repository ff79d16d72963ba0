//! The effects of every live view: terminal, keys, signals and samples. Two futures in one task: one samples
//! at the interval, the other draws and answers keys, so that a slow source never blocks the keyboard. The
//! view itself is a state machine ([`App`]): events in, actions out.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use crossterm::{cursor::Show, event::EventStream, execute};
use futures::StreamExt as _;
use ratatui::DefaultTerminal;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::input;
use crate::cli::presenter::{Action, App, Event, Presenter, Settings};
use crate::snapshot::Snapshot;
use crate::snapshot::source::Source;

/// The first window is shorter than the interval, so that numbers appear soon.
const FIRST_WINDOW: Duration = Duration::from_secs(1);

/// A terminal in raw mode on its alternate screen, until dropped. A panic restores it through ratatui's panic
/// hook, which runs even where a panic aborts.
pub(crate) struct Screen(DefaultTerminal);

impl Screen {
    pub(crate) fn open() -> std::io::Result<Self> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        show_cursor_on_panic();
        Ok(Self(terminal))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// ratatui's own hook leaves this to the terminal's destructor, which an abort skips.
fn show_cursor_on_panic() {
    let next = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // If the terminal is gone, there is no cursor to show; only the panic matters.
        drop(execute!(std::io::stdout(), Show));
        next(panic);
    }));
}

/// Shows the view until the user or a signal ends it.
pub(crate) async fn run(
    mut screen: Screen,
    settings: Settings,
    view: impl Presenter,
    first: Snapshot,
    mut source: impl Source,
) -> anyhow::Result<()> {
    // One sample is enough: none is needed while the view is being drawn.
    let (samples, mut events) = mpsc::channel(1);
    let (interval, intervals) = watch::channel(settings.interval);
    let size = screen.0.size().context("reading the terminal size")?;
    let mut app = view.into_app(settings, Arc::new(first), (size.width, size.height));
    tokio::select! {
        result = interact(&mut screen.0, &mut app, &mut events, &interval) => result,
        () = sample(&mut source, &samples, intervals) => Ok(()),
    }
}

/// Takes a sample per interval, also after failures, until the receiver is dropped. A longer interval begins
/// with the next sample: the agent was told when that comes, and stops measuring on request soon after.
async fn sample(
    source: &mut impl Source,
    samples: &mpsc::Sender<Event>,
    mut intervals: watch::Receiver<Duration>,
) {
    let mut last = Instant::now();
    let mut wait = FIRST_WINDOW.min(*intervals.borrow_and_update());
    loop {
        tokio::select! {
            () = sleep_until(last + wait) => {}
            Ok(()) = intervals.changed() => {
                wait = wait.min(*intervals.borrow_and_update());
                continue;
            }
        }
        last = Instant::now();
        wait = *intervals.borrow_and_update();
        source.will_ask_again_in(wait);
        let event = match source.next().await {
            Ok(sample) => Event::Sample(Arc::new(sample)),
            Err(error) => Event::Failed(format!("{error:#}")),
        };
        if samples.send(event).await.is_err() {
            return;
        }
    }
}

async fn interact(
    terminal: &mut DefaultTerminal,
    app: &mut impl App,
    samples: &mut mpsc::Receiver<Event>,
    interval: &watch::Sender<Duration>,
) -> anyhow::Result<()> {
    let mut keys = EventStream::new();
    let mut signals = Signals::new().context("watching for signals")?;
    loop {
        terminal.draw(|frame| app.draw(frame)).context("drawing on the terminal")?;
        let event = tokio::select! {
            key = keys.next() => match key.transpose().context("reading from the terminal")? {
                Some(key) => input::event(&key),
                None => return Ok(()),
            },
            sample = samples.recv() => sample,
            () = signals.end() => return Ok(()),
        };
        match event.map(|event| app.update(event)) {
            Some(Action::Quit) => return Ok(()),
            Some(Action::SetInterval(length)) => drop(interval.send_replace(length)),
            Some(Action::Draw) | None => {}
        }
    }
}

/// The signals that would otherwise end the process and leave the terminal in raw mode.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests;
