//! Options from a file: which of file, environment and command line wins, and what is said of mistakes.

use std::path::Path;
use std::process::Command;

use crate::common::Server;

fn check(file: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    let output = command.args(["config", "check"]).arg(file).args(more).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn a_file_gives_what_the_command_line_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ogive.toml");
    let other = directory.path().join("not-this");
    let text = format!("data = {other:?}\nlisten = ['127.0.0.1:0', '127.0.0.1:0']\n[query]\nsamples = 100\n");
    std::fs::write(&file, text).unwrap();
    assert_eq!(check(&file, &[]), (Some(0), format!("{}: fine\n", file.display())));
    // `--data` comes from the test's command line; both addresses and the limit from the file.
    let data = directory.path().join("data");
    let server = Server::try_start(&data, &["-c", file.to_str().unwrap()]).unwrap();
    assert_eq!(server.said.matches("http://127.0.0.1:").count(), 2, "{}", server.said);
    assert!(server.said.contains(&format!("options of {}", file.display())), "{}", server.said);
    assert!(data.exists() && !other.exists(), "the command line wins");
    let path = "/api/v1/query_range?query=vector(1)&start=0&end=1000&step=1";
    let (status, said) = server.get(path);
    assert!(status == 422 && said["error"].as_str().unwrap().contains("--query-samples"), "{said}");
    drop(server);
    let listen = ["-c", file.to_str().unwrap(), "--listen", "127.0.0.1:0", "--query-samples", "100000"];
    let server = Server::try_start(&data, &listen).unwrap();
    assert_eq!(server.said.matches("http://127.0.0.1:").count(), 1, "{}", server.said);
    assert_eq!(server.get(path).0, 200);
}

#[test]
fn the_environment_wins_over_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ogive.toml");
    let data = directory.path().join("data");
    std::fs::write(&file, format!("data = {data:?}\nlisten = '127.0.0.1:1'\n")).unwrap();
    // Port 1 is nobody's to take without rights, or in use, or free: which address was tried is in what it says.
    let output = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(["serve", "-c", file.to_str().unwrap()])
        .env("OGIVE_LISTEN", "192.0.2.1:1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("192.0.2.1:1"), "{said}");
}

#[test]
fn mistakes_are_told_before_and_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ogive.toml");
    std::fs::write(&file, "scrub-rate = '1MiB/s'\nlistne = 'x'\nretention = 'soon'\n").unwrap();
    let (code, said) = check(&file, &[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("line 2: there is no option \"listne\"; did you mean \"listen\"?"), "{said}");
    assert!(said.contains("line 3: \"retention\""), "{said}");
    let (_, json) = check(&file, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["ok"], json["mistakes"].as_array().unwrap().len()), (&false.into(), 2));
    let data = directory.path().join("data");
    let said = Server::try_start(&data, &["-c", file.to_str().unwrap()]).err().expect("it must not start");
    assert!(said.contains("line 2") && said.contains("exit code Some(2)"), "{said}");
    assert!(!data.exists());
    let said = Server::try_start(&data, &["-c", "/nowhere.toml"]).err().expect("it must not start");
    assert!(said.contains("cannot read /nowhere.toml"), "{said}");
    // The web configuration that it names is looked at too, and by itself.
    let web = directory.path().join("web.yml");
    std::fs::write(&web, "tls_server_config:\n  cert_fil: x\n").unwrap();
    std::fs::write(&file, format!("web-config = {web:?}\n")).unwrap();
    for path in [&file, &web] {
        let (code, said) = check(path, &[]);
        assert!(code == Some(1) && said.contains("web.yml") && said.contains("cert_file"), "{said}");
    }
}

#[test]
fn files_of_checks_and_queues_are_looked_at_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("checks.toml");
    let good = "# What we ask.\n[[check]]\nname = 'a'\nkind = 'tcp'\ntarget = 'h:1'\n\n[[check]]\nname = 'b'\nkind = 'dns'\nquery = 'x.org'\n";
    let of = |text: &str| {
        std::fs::write(&file, text).unwrap();
        check(&file, &[])
    };
    assert_eq!(of(good), (Some(0), format!("{}: fine\n", file.display())));
    for (from, to, words) in [
        ("target =", "targt =", &["line 5", "did you mean \"target\""][..]),
        ("'dns'", "'dnss'", &["line 7", "check \"b\"", "no kind \"dnss\"", "did you mean \"dns\""]),
        ("'h:1'", "'h'", &["line 2", "HOST:PORT"]),
        ("'b'", "'a'", &["\"a\" is there twice"]),
        ("query = 'x.org'", "query = ", &["line 10"]),
    ] {
        let (code, said) = of(&good.replacen(from, to, 1));
        assert_eq!(code, Some(1), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    }
    // The server's own file names it, and what is wrong in it is reported with its name.
    let serve = directory.path().join("ogive.toml");
    std::fs::write(&serve, format!("checks = {file:?}\n")).unwrap();
    let (code, said) = check(&serve, &[]);
    assert!(code == Some(1) && said.contains("checks.toml, line 10"), "{said}");
    of(good);
    assert_eq!(check(&serve, &[]).0, Some(0));
    let (code, said) = of("[[amqp.input]]\nurl = 'amqp://h'\nquueue = 'q'\n");
    assert_eq!(code, Some(1));
    match cfg!(feature = "amqp") {
        true => assert!(said.contains("line 3") && said.contains("did you mean \"queue\""), "{said}"),
        false => assert!(said.contains("--features amqp"), "{said}"),
    }
}
