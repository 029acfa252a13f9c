//! `[[check.run_command]]` tables: commands of the operator, and the numbers in their answers.
//!
//! Format: `command` is a document in MongoDB's extended JSON, whose first name is that of the command. What its
//! `extract` tables find in the answer has the label `query`, the table's name, and
//! `ogive_check_query_seconds{query}` is how long the answer took.
//! Invariants: commands that write are refused when the file is read; a server is asked to end a command before the
//! check's own time is over, and a cursor that is left is closed.
//! Limits: [`COMMANDS_MAX`], [`COMMAND_BYTES_MAX`], those of `extract` for each.
//! Failure: an answer with more documents than its first batch fails the run; what its tables find there is stored.

use std::collections::BTreeSet;

use bson::raw::cstr;
use bson::{Bson, Document, RawDocumentBuf, rawdoc};
use ogive_probe::Clock;
use serde_json::Value;

use super::messages::Session;
use crate::extract::{self, Answer, Extract};
use crate::raw::{CommandTable, Raw};
use crate::run::{Failure, Reason, Run};

/// 20 commands: as many as queries; all of them share the check's timeout.
const COMMANDS_MAX: usize = 20;
/// 64 KiB of a command: a pipeline of many pages.
const COMMAND_BYTES_MAX: usize = 64 << 10;
/// Commands that change nothing. Of `aggregate` two stages do, [`WRITING`].
const READING: [&str; 22] = [
    "aggregate",
    "balancerStatus",
    "buildInfo",
    "collStats",
    "connPoolStats",
    "count",
    "currentOp",
    "dataSize",
    "dbStats",
    "distinct",
    "find",
    "getParameter",
    "hello",
    "hostInfo",
    "isMaster",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "ping",
    "replSetGetStatus",
    "serverStatus",
    "top",
];
const WRITING: [&str; 2] = ["$merge", "$out"];

/// A command, and what is looked for in its answer.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    name: String,
    database: String,
    document: RawDocumentBuf,
    /// It says itself for how long the server may work on it.
    has_limit: bool,
    /// It says itself which members of a replica set may answer it.
    has_preference: bool,
    extract: Vec<Extract>,
}

impl Command {
    /// What `[[check.run_command]]` tables say; `database` is asked where they do not say.
    pub(crate) fn all(raw: &mut Raw, database: &str) -> Result<Vec<Self>, String> {
        let tables = raw.run_command.take().unwrap_or_default();
        if tables.len() > COMMANDS_MAX {
            return Err(format!("there are {} [[check.run_command]] tables, above {COMMANDS_MAX}", tables.len()));
        }
        let mut names = BTreeSet::new();
        let mut commands = Vec::new();
        for table in tables {
            let name = table.name.clone();
            let of = |sentence: String| format!("run_command {name:?}: {sentence}");
            if name.is_empty() || !names.insert(name.clone()) {
                return Err(of("give each command a name of its own".into()));
            }
            commands.push(Self::from_table(table, database).map_err(of)?);
        }
        Ok(commands)
    }

    fn from_table(table: CommandTable, database: &str) -> Result<Self, String> {
        let CommandTable { name, database: own, command, extract } = table;
        let database = own.unwrap_or_else(|| database.to_owned());
        if !is_database(&database) {
            return Err(format!("database {database:?} is no name of one"));
        }
        let document = document(&command)?;
        let (has_limit, has_preference) =
            (document.contains_key("maxTimeMS"), document.contains_key("$readPreference"));
        let document = RawDocumentBuf::try_from(&document).map_err(|error| format!("command: {error}"))?;
        let extract = Extract::all(Some(extract))?;
        if extract.is_empty() {
            return Err("there is no extract table: nothing of the answer would be stored".into());
        }
        Ok(Self { name, database, document, has_limit, has_preference, extract })
    }

    /// Asks a server, which is to end it after `limit_ms`, and reports what the tables find in its answer.
    pub(crate) async fn run(
        &self,
        session: &mut Session,
        run: &mut Run,
        limit_ms: u64,
        clock: Clock,
    ) -> Result<(), Failure> {
        run.query(&self.name);
        let from = clock.now();
        let answer = match session.ask(&self.database, self.document(limit_ms)).await {
            Ok(reply) => reply.judged(),
            Err(failure) => Err(failure),
        };
        // A command without an answer has no latency, as a run has none.
        if answer.as_ref().err().is_none_or(|failure| failure.reason.is_answer()) {
            run.query_seconds(&self.name, clock.now().saturating_sub(from));
        }
        let named =
            |Failure { reason, sentence }| Failure::new(reason, format!("run_command {:?}: {sentence}", self.name));
        let answer = answer.map_err(named)?;
        let reported = extract::report(run, &self.extract, &Answer::from_json(&answer), &[("query", &self.name)]);
        let is_whole = self.close(session, &answer).await.map_err(named)?;
        reported.map_err(named)?;
        if !is_whole {
            let sentence = "the answer has more documents than its first batch; write a $limit or a batchSize";
            return Err(named(Failure::new(Reason::Content, sentence)));
        }
        Ok(())
    }

    /// The command as it is sent.
    fn document(&self, limit_ms: u64) -> RawDocumentBuf {
        let mut document = self.document.clone();
        if !self.has_limit {
            document.append(cstr!("maxTimeMS"), i64::try_from(limit_ms).unwrap_or(i64::MAX));
        }
        // A secondary answers nothing about data without it.
        if !self.has_preference {
            document.append(cstr!("$readPreference"), rawdoc! {"mode": "primaryPreferred"});
        }
        document
    }

    /// Closes the cursor of an answer that has more documents; whether it has none.
    async fn close(&self, session: &mut Session, answer: &Value) -> Result<bool, Failure> {
        let cursor = &answer["cursor"];
        let id = cursor["id"].as_i64().unwrap_or_default();
        let collection = cursor["ns"].as_str().and_then(|name| name.split_once('.')).map(|(_, collection)| collection);
        let (true, Some(collection)) = (id != 0, collection) else { return Ok(id == 0) };
        // Whether it does is the server's own affair: it closes those that nobody asks for after ten minutes.
        session.ask(&self.database, rawdoc! {"killCursors": collection, "cursors": [id]}).await?;
        Ok(false)
    }
}

/// Whether it can be the name of a database.
pub(crate) fn is_database(name: &str) -> bool {
    !name.is_empty() && name.len() < 64 && !name.contains(['\0', '/', '\\', '.', ' ', '"', '$'])
}

/// A command that only reads.
fn document(text: &str) -> Result<Document, String> {
    if text.len() > COMMAND_BYTES_MAX {
        return Err(format!("command has more than {COMMAND_BYTES_MAX} bytes"));
    }
    let document: Document =
        serde_json::from_str(text).map_err(|error| format!("command is no document of JSON: {error}"))?;
    let name = document.keys().next().map_or("", String::as_str);
    if !READING.contains(&name) {
        return Err(format!("command {name:?} is none that is known to read alone; there are {}", READING.join(", ")));
    }
    if document.contains_key("$db") {
        return Err("command: write $db as database".into());
    }
    let stages = document.get("pipeline").and_then(Bson::as_array).into_iter().flatten();
    let mut names = stages.filter_map(Bson::as_document).flat_map(Document::keys);
    if let Some(stage) = names.find(|name| WRITING.contains(&name.as_str())) {
        return Err(format!("command: the stage {stage} writes"));
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(keys: &str) -> Result<Vec<Command>, String> {
        let raw: Result<Raw, _> = toml::from_str(&format!("name = 'a'\nkind = 'mongodb'\n{keys}"));
        Command::all(&mut raw.map_err(|error| error.to_string())?, "admin")
    }

    fn table(command: &str) -> String {
        format!("[[run_command]]\nname = 'n'\ncommand = '{command}'\nextract = [{{name = 'x', json = '$.n'}}]\n")
    }

    #[test]
    fn commands_keep_their_order_and_get_limits() {
        let sent = |command: &str| commands(&table(command)).unwrap().remove(0).document(450);
        let expected = rawdoc! {
            "count": "orders", "query": {"at": {"$gt": bson::DateTime::from_millis(7)}, "a": 1_i32},
            "maxTimeMS": 450_i64, "$readPreference": {"mode": "primaryPreferred"},
        };
        let count = r#"{"count": "orders", "query": {"at": {"$gt": {"$date": {"$numberLong": "7"}}}, "a": 1}}"#;
        assert_eq!(sent(count), expected);
        let own = r#"{"ping": 1, "maxTimeMS": 5, "$readPreference": {"mode": "primary"}}"#;
        let expected = rawdoc! {"ping": 1_i32, "maxTimeMS": 5_i32, "$readPreference": {"mode": "primary"}};
        assert_eq!(sent(own), expected);
        let all = commands(&(table(own) + "database = 'shop'\n" + &table(own).replace("'n'", "'m'"))).unwrap();
        let databases: Vec<&str> = all.iter().map(|command| command.database.as_str()).collect();
        assert_eq!(databases, ["shop", "admin"]);
    }

    #[test]
    fn what_writes_and_other_mistakes_are_refused() {
        for (command, sentence) in [
            (r#"{"dropDatabase": 1}"#, "command \"dropDatabase\" is none that is known to read alone"),
            (r#"{"Ping": 1}"#, "command \"Ping\" is none"),
            ("{}", "command \"\" is none"),
            ("[]", "command is no document of JSON"),
            (r#"{"ping": 1"#, "command is no document of JSON"),
            (r#"{"ping": 1, "$db": "x"}"#, "write $db as database"),
            (
                r#"{"aggregate": "a", "pipeline": [{"$match": {}}, {"$out": "b"}], "cursor": {}}"#,
                "the stage $out writes",
            ),
            (r#"{"aggregate": "a", "pipeline": [{"$merge": {"into": "b"}}], "cursor": {}}"#, "the stage $merge writes"),
        ] {
            let found = commands(&table(command)).unwrap_err();
            assert!(found.starts_with("run_command \"n\": ") && found.contains(sentence), "{found}");
        }
        let ping = table(r#"{"ping": 1}"#);
        for (keys, sentence) in [
            (ping.repeat(2), "give each command a name of its own"),
            (ping.clone() + "database = 'a.b'\n", "database \"a.b\" is no name of one"),
            (ping.replace("extract = [{name = 'x', json = '$.n'}]", "extract = []"), "there is no extract table"),
            (ping.replace("json = '$.n'", "json = 'n'"), "is no path"),
        ] {
            let found = commands(&keys).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
        let of = |count: usize| {
            let tables = (0..count).map(|at| ping.replace("'n'", &format!("'{at}'"))).collect::<String>();
            commands(&tables)
        };
        assert_eq!(of(COMMANDS_MAX).unwrap().len(), COMMANDS_MAX);
        assert!(of(COMMANDS_MAX + 1).unwrap_err().contains("above 20"));
        let long = |bytes: usize| document(&format!("{{\"ping\": \"{}\"}}", "x".repeat(bytes - 12)));
        assert!(long(COMMAND_BYTES_MAX).is_ok());
        assert!(long(COMMAND_BYTES_MAX + 1).unwrap_err().contains("more than 65536 bytes"));
    }
}
