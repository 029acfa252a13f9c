//! Jolokia: its own agent in a Java process with MBeans of its own (`tests/clients/Beans.java`).

use super::{directory, has, said, says, serve};
use crate::common::clients::{Client, java_with_jolokia};
use crate::common::eventually;
use crate::common::programs::free_port;

#[test]
fn numbers_of_mbeans_are_read() {
    let directory = directory();
    let port = free_port();
    let options = format!("host=127.0.0.1,port={port},user=monitor,password=open-sesame,discoveryEnabled=false");
    let command = java_with_jolokia(&options, "Beans.java");
    let mut beans = Client::run("Beans.java", command);
    beans.wait_for("ready");
    let check = |name: &str, password: &str, reads: &[&str]| {
        let reads: String = reads.iter().map(|read| format!("[[check.read]]\n{read}\n")).collect();
        format!(
            "[[check]]\nname = '{name}'\nkind = 'jolokia'\nperiod = '4s'\ntimeout = '2s'\n\
             target = 'http://127.0.0.1:{port}/jolokia/'\nuser = 'monitor'\npassword = '{password}'\n{reads}"
        )
    };
    let queues = "mbean = 'ogive.test:type=Queue,name=*'\nattributes = ['Length', 'Open']\nmetric = 'queue'";
    let done = "mbean = 'ogive.test:type=Queue,name=*'\nattributes = ['Done']\nmetric = 'queue_total'\ncounter = true";
    let memory = "mbean = 'java.lang:type=Memory'\nattributes = ['HeapMemoryUsage']\nunit = 'By'";
    let broken = "mbean = 'ogive.test:type=Broken,name=none'";
    let named = "mbean = 'ogive.test:type=Broken,name=none'\nattributes = ['Done']";
    let gone = "mbean = 'ogive.test:type=Gone'";
    let checks = [
        check("all", "open-sesame", &[queues, done, memory, broken]),
        check("named", "open-sesame", &[named, queues]),
        check("gone", "open-sesame", &[queues, gone]),
        check("stranger", "hunter2", &[queues]),
    ];
    let server = serve(directory.path(), &checks.concat());
    has(&server, "all", "ok");
    for (expr, value) in [
        ("queue{check=\"all\",name=\"mail\",attribute=\"Length\",domain=\"ogive.test\",type=\"Queue\"}", 7.0),
        ("queue{check=\"all\",name=\"web,static\",attribute=\"Length\"}", 3.0),
        ("queue{check=\"all\",name=\"mail\",attribute=\"Open\"}", 1.0),
        ("queue_total{check=\"all\",name=\"mail\",attribute=\"Done\"}", 7000.0),
        ("jmx{check=\"all\",name=\"none\",attribute=\"Length\"}", 0.0),
        // An attribute that nobody named may fail, and is counted.
        ("ogive_check_jolokia_errors{check=\"all\",read=\"ogive.test:type=Broken,name=none\"}", 1.0),
        ("ogive_check_jolokia_errors{check=\"all\",read=\"java.lang:type=Memory\"}", 0.0),
        ("ogive_check_jolokia_errors{check=\"gone\",read=\"ogive.test:type=Gone\"}", 1.0),
        // What the others read is stored.
        ("queue{check=\"gone\",name=\"mail\",attribute=\"Length\"}", 7.0),
        ("queue{check=\"named\",name=\"mail\",attribute=\"Length\"}", 7.0),
    ] {
        eventually(&format!("{expr} is {value}"), || server.number(expr).filter(|found| *found == value));
    }
    eventually("the heap is used", || {
        server.number("jmx{check=\"all\",attribute=\"HeapMemoryUsage\",path=\"used\"}").filter(|bytes| *bytes > 0.0)
    });
    let (_, metadata) = server.get("/api/v1/metadata");
    let kind = |metric: &str| metadata["data"][metric][0]["type"].as_str().map(str::to_owned);
    assert_eq!((kind("queue_total").as_deref(), kind("queue").as_deref()), (Some("counter"), Some("gauge")));
    for (check, words) in
        [("named", "nobody counts"), ("gone", "status 404: javax.management.InstanceNotFoundException")]
    {
        has(&server, check, "content");
        says(&server, "ogive_check_wrong_answer", check, words);
    }
    has(&server, "stranger", "login");
    assert!(!said(&server, "stranger").contains("hunter"));
}
