//! The decision tables, built in, and how they are read.

use crate::policy::rehearsal::parse::time;

macro_rules! tables {
    ($($table:ident)*) => {
        /// The built-in tables: each one's name and text, as in `tests/decisions`.
        pub const TABLES: &[(&str, &str)] = &[$((
            stringify!($table),
            include_str!(concat!("../../../../tests/decisions/", stringify!($table), ".txt")),
        )),*];
    };
}

tables! { anew asked create doubt floor gate holds let_through moving own plans record release renew room step_down take terms vacancy view }

/// A line of a table, with its number in the file.
#[derive(Clone, Debug)]
pub struct Line {
    /// From 1.
    pub number: usize,
    /// What it says.
    pub text: String,
}

/// One decision of a table.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Everything before `----`, as it stands.
    pub given: String,
    /// What is decided.
    pub command: Line,
    /// The imports' answers, in order.
    pub answers: Vec<Line>,
    /// What is asked of the imports and what is decided, as it stands.
    pub expected: String,
}

impl Scene {
    /// The scenes of a table. An empty line ends each; a paragraph of comments alone is none.
    #[must_use]
    pub fn of_table(text: &str) -> Vec<Self> {
        let mut scenes = Vec::new();
        let mut paragraph: Vec<Line> = Vec::new();
        // One empty line more closes the last scene.
        for (at, line) in text.lines().chain([""]).enumerate() {
            if line.trim().is_empty() {
                scenes.extend(Self::of_paragraph(&std::mem::take(&mut paragraph)));
            } else {
                paragraph.push(Line { number: at + 1, text: line.trim_end().into() });
            }
        }
        scenes
    }

    fn of_paragraph(paragraph: &[Line]) -> Option<Self> {
        let text =
            |lines: &[Line]| lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        let rule = paragraph.iter().position(|line| line.text == "----").unwrap_or(paragraph.len());
        let (given, expected) = paragraph.split_at(rule);
        let mut said = given.iter().filter(|line| !line.text.starts_with('#')).cloned();
        Some(Self {
            given: text(given),
            command: said.next()?,
            answers: said.collect(),
            expected: text(expected.get(1..).unwrap_or_default()),
        })
    }

    /// What is shown: its comment.
    #[must_use]
    pub fn shown(&self) -> String {
        let comments = self.given.lines().filter_map(|line| line.strip_prefix('#'));
        comments.map(str::trim).collect::<Vec<_>>().join(" ")
    }

    /// The command's word and its arguments.
    #[must_use]
    pub fn command(&self) -> (&str, &str) {
        self.command.text.split_once(' ').unwrap_or((&self.command.text, ""))
    }

    /// What is asked of the imports, each call with its line end and without the log, and what is decided.
    pub(super) fn expected(&self) -> (String, String) {
        let (mut calls, mut outcome) = (String::new(), Vec::new());
        for line in self.expected.lines() {
            let mut words = line.split(' ');
            let timed = words.next().is_some_and(|word| word.ends_with('s') && time(word).is_ok());
            match (timed && outcome.is_empty(), words.next()) {
                (true, Some("log")) => {}
                (true, Some(_)) => calls.extend([line, "\n"]),
                _ => outcome.push(line),
            }
        }
        (calls, outcome.join("\n"))
    }
}
