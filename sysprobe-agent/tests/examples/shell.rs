//! Parses the part of shell syntax that examples use: prompts, continued lines, quotes, comments, pipes, and
//! commands that start another command.

use std::path::Path;

/// Stands for a bar within a word of inline code, which separates alternatives.
const OR: char = '\u{1}';

/// The typed lines with their numbers: all, or those after a prompt. A continued line is joined.
pub(crate) fn typed(text: &str, all: bool) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        let typed = line.strip_prefix("$ ").or(line.strip_prefix("# ").filter(|_| !all));
        let typed = typed.or(Some(line).filter(|_| all || goes_on));
        let Some(typed) = typed else { continue };
        let part = typed.strip_suffix('\\');
        match found.last_mut().filter(|_| goes_on) {
            Some((_, begun)) => begun.push_str(part.unwrap_or(typed)),
            None => found.push((number, part.unwrap_or(typed).to_owned())),
        }
        goes_on = part.is_some();
    }
    found
}

/// The arguments of each `sysprobe` that a line starts, directly or through another command.
pub(crate) fn of_program(line: &str) -> Vec<Vec<String>> {
    commands(line).iter().filter_map(|words| arguments(words)).collect()
}

fn arguments(words: &[String]) -> Option<Vec<String>> {
    const STARTERS: [&str; 5] = ["sudo", "exec", "time", "watch", "nohup"];
    let is_before = |word: &&String| STARTERS.contains(&word.as_str()) || is_assignment(word);
    let own = &words[words.iter().take_while(is_before).count()..];
    let behind = words.iter().position(|word| word == "--").map(|at| &words[at + 1..]);
    if let ([cargo, xtask, run, ..], Some(behind)) = (own, behind)
        && [cargo, xtask, run] == ["cargo", "xtask", "run"]
    {
        return Some(std::iter::once("top".to_owned()).chain(behind.iter().cloned()).collect());
    }
    let (_, arguments) = [Some(own), behind].into_iter().flatten().find_map(|words| {
        words
            .split_first()
            .filter(|(name, _)| Path::new(name).file_name().is_some_and(|name| name == "sysprobe"))
    })?;
    // Ellipses are dropped.
    Some(arguments.iter().filter(|word| !["…", "..."].contains(&word.as_str())).cloned().collect())
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// The simple commands of a line, each as a list of words.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    // `None` between words; a quoted word may be empty.
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_bar_in_word =
            letter == '|' && word.is_some() && letters.peek().is_some_and(char::is_ascii_alphanumeric);
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if is_bar_in_word => word.get_or_insert_default().push(OR),
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')') => {
                // The `2` of `2>` is not a word.
                let is_number = |word: &String| word.parse::<u8>().is_ok();
                let whole = word.take().filter(|word| letter != '>' || !is_number(word));
                commands.last_mut().expect("there is one").extend(whole);
                commands.push(Vec::new());
            }
            (None, _) if letter.is_whitespace() => {
                commands.last_mut().expect("there is one").extend(word.take());
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    commands.last_mut().expect("there is one").extend(word);
    commands
}

/// A command line for each alternative of a word.
pub(crate) fn alternatives(words: &[String]) -> Vec<Vec<String>> {
    let Some(at) = words.iter().position(|word| word.contains(OR)) else { return vec![words.to_owned()] };
    let chosen = words[at].split(OR).map(|chosen| {
        let mut words = words.to_owned();
        chosen.clone_into(&mut words[at]);
        words
    });
    chosen.flat_map(|words| alternatives(&words)).collect()
}
