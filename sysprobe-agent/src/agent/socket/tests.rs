//! Access to the socket, from the moment it exists.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;

use super::*;

/// inotify events for attribute changes of a directory's files.
fn attributes_of(directory: &Path) -> File {
    let path = CString::new(directory.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: no address is given; a new descriptor is returned.
    let descriptor = unsafe { libc::inotify_init1(libc::IN_NONBLOCK) };
    assert!(descriptor >= 0);
    // SAFETY: a new descriptor without another owner.
    let events = unsafe { File::from_raw_fd(descriptor) };
    // SAFETY: the descriptor is open and the path lives.
    let watch = unsafe { libc::inotify_add_watch(events.as_raw_fd(), path.as_ptr(), libc::IN_ATTRIB) };
    assert!(watch >= 0);
    events
}

#[tokio::test]
async fn the_socket_is_roots_alone_from_its_first_moment() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("agent.sock");
    let mut events = attributes_of(directory.path());
    let socket = Socket::bind(&path).await.expect("bound");
    assert_eq!(path.metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
    let read = io::Read::read(&mut events, &mut [0; 4096]);
    assert_eq!(
        read.map_err(|error| error.kind()),
        Err(ErrorKind::WouldBlock),
        "its mode was changed afterwards"
    );
    drop(socket);
    assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 0, "nothing is left");
}

#[tokio::test]
async fn an_agent_that_has_not_made_its_socket_yet_has_the_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("agent.sock");
    // Left behind by an agent that died.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let starting = Lock::take(&path).expect("the first to start");
    let error = Socket::bind(&path).await.expect_err("the name is taken").to_string();
    assert!(error.starts_with("another agent answers"), "{error}");
    assert!(path.exists(), "it removes nothing");
    drop(starting);
    Socket::bind(&path).await.expect("the name is free");
}

#[tokio::test]
async fn of_agents_that_start_at_once_one_has_the_socket() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("agent.sock");
    for _ in 0..50 {
        // Left behind by an agent that died.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        let agents = (0..4).map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let socket = runtime.expect("a runtime").block_on(Socket::bind(&path));
                // Keeps this agent alive while others start.
                std::thread::sleep(std::time::Duration::from_millis(5));
                socket
                    .map(|socket| socket.is_still_ours().unwrap_or(false))
                    .map_err(|error| error.to_string())
            })
        });
        let agents: Vec<_> = agents.collect();
        let started: Vec<_> = agents.into_iter().map(|agent| agent.join().expect("no panic")).collect();
        let owners = started.iter().filter(|agent| **agent == Ok(true)).count();
        assert!(owners >= 1 && !started.contains(&Ok(false)), "{started:?}");
    }
}
