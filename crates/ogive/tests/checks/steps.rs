//! HTTP with numbers in its answers, and in steps with cookies: nginx answers, as it does to browsers.

use super::{directory, gauge, has, latencies, measured, nginx_of, says, serve, table};
use crate::common::eventually;
use crate::common::programs::{free_port, listens};

/// Its own counters, a list in JSON, and pages behind a login of a token and a cookie.
const PAGES: &str = r#"
    location = /status { stub_status; }
    location = /queues { return 200 '{"queues": [{"name": "mail", "length": 3}, {"name": "web", "length": "4"}], "up": true}'; }
    location = /login { add_header Set-Cookie "sid=s3cret; Path=/; HttpOnly"; return 200 'name="csrf" value="t+k=n"'; }
    location = /enter {
        if ($arg_token != "t%2Bk%3Dn") { return 403; }
        if ($http_x_user != "monitor") { return 403; }
        if ($cookie_sid != "s3cret") { return 401; }
        add_header Set-Cookie "in=yes; Path=/inside";
        return 302 /inside/page;
    }
    location /inside/ { if ($cookie_in != "yes") { return 401; } return 200 'open orders: 7'; }
"#;

#[test]
fn numbers_in_answers_become_series() {
    let directory = directory();
    let port = free_port();
    let _nginx = nginx_of(directory.path(), &format!("server {{ listen 127.0.0.1:{port}; {PAGES} }}"));
    listens(port);
    let url = |path: &str| format!("target = 'http://127.0.0.1:{port}{path}'\n");
    let extract = |name: &str, keys: &str| format!("[[check.extract]]\nname = '{name}'\n{keys}\n");
    let steps = |names: &[&str]| {
        let keys = |name: &str| match name {
            "form" => "target = '/login'\nkeep.csrf = {regex = 'value=\"([^\"]+)\"'}".to_owned(),
            "enter" => "target = '/enter?token=${csrf}'\nmethod = 'POST'\nredirects = 1\nstatus = [200]\n\
                        extract = [{name = 'orders_open', regex = 'orders: (\\d+)'}]"
                .to_owned(),
            "again" => "target = '/inside/again'".to_owned(),
            "token" => "target = '/enter?token=t%2Bk%3Dn'".to_owned(),
            other => unreachable!("{other}"),
        };
        let steps = names.iter().map(|name| format!("[[check.step]]\nname = '{name}'\n{}\n", keys(name)));
        url("/") + "user = 'monitor'\nheaders = {x-user = '${user}'}\n" + &steps.collect::<String>()
    };
    let checks = [
        table("nginx", "http", &(url("/status") + &extract("nginx_requests", "regex = '\\d+ \\d+ (\\d+)'"))),
        table(
            "queues",
            "http",
            &(url("/queues")
                + &extract(
                    "mail_length",
                    "json = \"$.queues[?@.name=='mail'].length\"\nunit = 'jobs'\nlabels = {team = 'x'}",
                )
                + &extract("any_length", "json = '$.queues[*].length'")
                + &extract("is_up", "json = '$.up'")),
        ),
        table(
            "missing",
            "http",
            &(url("/queues") + &extract("is_there", "json = '$.up'") + &extract("gone", "json = '$.x'")),
        ),
        table("shop", "http", &steps(&["form", "enter", "again"])),
        table("no-cookie", "http", &steps(&["token"])),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["nginx", "queues", "shop"] {
        has(&server, check, "ok");
    }
    gauge(&server, "nginx_requests", "nginx", |requests| requests > 0.0);
    gauge(&server, "is_up", "queues", |up| up == 1.0);
    server.becomes("sum(mail_length{check=\"queues\",team=\"x\"})", 3.0);
    server.becomes("sum(any_length{path=\"$['queues'][1]['length']\"})", 4.0);
    server.becomes("orders_open{check=\"shop\",step=\"enter\"}", 7.0);
    for (phase, count) in [("total", 1.0), ("first_byte", 4.0)] {
        measured(&server, "shop", phase, count);
    }
    let has_step = |check: &str, step: &str| {
        let count = latencies(check, "")
            .replace("ogive_check_seconds", "ogive_check_step_seconds")
            .replace("phase=\"\"", &format!("step=\"{step}\""));
        eventually(&format!("{check} step {step}"), || server.number(&count).filter(|found| *found >= 1.0));
    };
    for name in ["form", "enter", "again"] {
        has_step("shop", name);
    }
    has(&server, "missing", "content");
    says(&server, "ogive_check_wrong_answer", "missing", "content: extract \\\"gone\\\": nothing in the answer is at");
    gauge(&server, "is_there", "missing", |up| up == 1.0);
    has(&server, "no-cookie", "status");
    says(&server, "ogive_check_wrong_answer", "no-cookie", "status: step token: the answer has status 401");
    has_step("no-cookie", "token");
}
