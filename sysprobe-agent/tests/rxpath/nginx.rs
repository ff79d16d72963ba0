//! nginx's own count of the requests that wrk sends.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sysprobe_common::rxpath::RxpathLoss;

use super::loads::Transport;
use super::path::Path;
use super::support::cgroup::Cgroup;
use super::support::network::{Namespace, RIGHT};
use super::support::process::inside;
use super::support::totals::lost;
use super::support::{at_rest, figure, until};
use super::{Stage, assert_nothing_lost, unseen_at_most};

const PORT: u16 = 8080;
/// When wrk ends, each connection has a request that may or may not have been read or answered.
const CONNECTIONS: u64 = 8;

/// An nginx with one worker; killed at the end, and its directory removed.
struct Server {
    nginx: Child,
    directory: PathBuf,
}

impl Server {
    fn start(cgroup: &Cgroup, namespace: &Namespace) -> Self {
        let directory = PathBuf::from(format!("/tmp/sysprobe-test-{}-nginx", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory of ours");
        let configuration = format!(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/errors;\n\
             events {{}}\n\
             http {{ access_log {0}/log; client_body_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path \
             {0};\n\
             uwsgi_temp_path {0}; scgi_temp_path {0};\n\
             server {{ listen {1}:{PORT}; keepalive_requests 1000000; location / {{ return 200 ok; }} }} \
             }}\n",
            directory.display(),
            RIGHT[0]
        );
        fs::write(directory.join("conf"), configuration).expect("a file of ours");
        let mut command = there(cgroup, namespace, "nginx");
        let nginx = command.arg("-c").arg(directory.join("conf")).spawn().expect("nginx can be started");
        let server = Self { nginx, directory };
        until("it listens", || namespace.listens(PORT).then_some(()));
        server
    }

    /// The number of requests that it has logged.
    fn logged(&self) -> u64 {
        fs::read_to_string(self.directory.join("log")).map_or(0, |log| log.lines().count() as u64)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.nginx.kill());
        drop(self.nginx.wait());
        drop(fs::remove_dir_all(&self.directory));
    }
}

fn there(cgroup: &Cgroup, namespace: &Namespace, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.name, program]).stdin(Stdio::null()).stderr(Stdio::null());
    inside(&mut command, cgroup);
    command
}

/// Each request on a kept-alive connection arrives at an empty socket, so nginx logs as many requests as are
/// followed to it. Together, they are under way no longer than the connections exist.
#[test]
fn as_many_requests_are_followed_as_nginx_logs() {
    let stage = Stage::new("nginx");
    let server = Server::start(&stage.reader, &stage.wire.right);
    let url = format!("http://{}:{PORT}/", RIGHT[0]);
    let connections = CONNECTIONS.to_string();
    let mut wrk = there(&stage.asker, &stage.wire.left, "wrk");
    let begun = Instant::now();
    let output = wrk.args(["-t1", "-c", &connections, "-d3s", &url]).output().expect("wrk can be started");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "wrk: {report}");
    let logged = at_rest("nginx has logged all", || Some(server.logged()).filter(|logged| *logged > 0));
    for watcher in &stage.watchers {
        let (snapshot, took) = (watcher.agent.snapshot(), begun.elapsed());
        let of = |cgroup| Path::of(&snapshot, cgroup, Transport::Tcp);
        let (requests, answers) = (of(&stage.reader), of(&stage.asker));
        requests.show(watcher, &stage.reader);
        answers.show(watcher, &stage.asker);
        requests.assert_complete();
        let name = watcher.mode.name();
        figure(&format!("{name}: {} requests, nginx has logged {logged}", requests.count()));
        // A packet whose arrival was overwritten is followed to no reader.
        let overwritten = lost(&snapshot, "rxpath", RxpathLoss::ArrivalOverwritten.reason());
        let missing = CONNECTIONS + overwritten + unseen_at_most(stage.spared);
        assert!(requests.count() <= logged + CONNECTIONS, "by {name}");
        assert!(requests.count() + missing >= logged, "by {name}: {missing} may be missing");
        let ways = [requests.total().sum_ns, answers.total().sum_ns].map(Duration::from_nanos);
        figure(&format!("{name}: {ways:?} on the ways, {CONNECTIONS} connections for {took:?}"));
        // A connection has one request or answer under way at a time.
        let most = took * u32::try_from(CONNECTIONS).expect("small");
        assert!(ways[0] + ways[1] <= most, "by {name}: {ways:?} of {most:?}");
    }
    assert_nothing_lost(&stage.watchers);
}
