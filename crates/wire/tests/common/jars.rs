//! Servers that Maven brings. They are tried where OGIVE_LIVE_LONG is set: jars of some tens of megabytes are fetched
//! once, and a JVM takes its time.

use std::path::Path;
use std::process::Command;

/// Whether the long form of the tests was asked for; says in a line when not.
pub(crate) fn is_wanted(what: &str) -> bool {
    let is_wanted = std::env::var_os("OGIVE_LIVE_LONG").is_some();
    if !is_wanted {
        println!("skipped: {what}: set OGIVE_LIVE_LONG=1 (it needs java, mvn and a Maven repository)");
    }
    is_wanted
}

/// The class path of an artifact with all that it needs.
pub(crate) fn class_path(directory: &Path, group: &str, artifact: &str, version: &str) -> String {
    let (pom, out) = (directory.join("pom.xml"), directory.join("class_path"));
    let text = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version><dependencies>\
         <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>\
         </dependencies></project>"
    );
    std::fs::write(&pom, text).expect("the directory is ours");
    let mut command = Command::new("mvn");
    command.args(["-q", "-B", "dependency:build-classpath", "-f"]).arg(&pom);
    let output = command.arg(format!("-Dmdep.outputFile={}", out.display())).output().expect("run scripts/need mvn");
    assert!(output.status.success(), "mvn: {}", String::from_utf8_lossy(&output.stdout));
    std::fs::read_to_string(out).expect("mvn wrote it")
}

/// A JVM with a small heap, and little compiling: the tests are over before it pays.
pub(crate) fn java(directory: &Path, class_path: &str) -> Command {
    let mut command = Command::new("java");
    command.current_dir(directory);
    command.args(["-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path]);
    command
}

/// Runs a Java program to its end.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().expect("run scripts/need java");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
