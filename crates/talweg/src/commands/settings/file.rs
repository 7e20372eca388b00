//! Reading a configuration file, with the lines of its keys.

use std::path::{Path, PathBuf};

use talweg::explain::find::nearest;
use toml_edit::{Document, Item, TableLike, Value};

use super::SettingsError;
use super::table::SETTINGS;

/// A key of a file with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file.
    pub path: PathBuf,
    /// The line of the key, from 1.
    pub line: usize,
    /// The key, with its table.
    pub key: &'static str,
    /// The value as an option would be given.
    pub value: String,
}

/// Reads a file; every key must be a setting.
pub fn read(path: &Path) -> Result<Vec<Entry>, SettingsError> {
    let unreadable = |source| SettingsError::Unreadable { path: path.into(), source };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let line_at = |at: usize| text.bytes().take(at).filter(|b| *b == b'\n').count() + 1;
    let parsed = Document::parse(text.as_str()).map_err(|e| SettingsError::Syntax {
        path: path.into(),
        line: e.span().map_or(1, |span| line_at(span.start)),
        message: e.message().trim().to_string(),
    })?;
    let mut out = Vec::new();
    let reader = Reader { path, line_at: &line_at };
    reader.table("", parsed.as_table(), &mut out)?;
    Ok(out)
}

struct Reader<'a> {
    path: &'a Path,
    line_at: &'a dyn Fn(usize) -> usize,
}

impl Reader<'_> {
    fn table(&self, prefix: &str, table: &dyn TableLike, out: &mut Vec<Entry>) -> Result<(), SettingsError> {
        for (name, item) in table.iter() {
            let place = table.key(name).and_then(|k| k.span()).or(item.span());
            let line = place.map_or(1, |span| (self.line_at)(span.start));
            let key = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
            let is_group = SETTINGS.iter().any(|s| s.key.starts_with(&format!("{key}.")));
            if let Some(inner) = item.as_table_like().filter(|_| is_group) {
                self.table(&key, inner, out)?;
                continue;
            }
            let Some(setting) = SETTINGS.iter().find(|s| s.key == key) else {
                return Err(self.unknown(line, key));
            };
            let value = scalar(item).map_err(|kind| SettingsError::Syntax {
                path: self.path.into(),
                line,
                message: format!("`{key}` is {kind}, and must be a text or a number"),
            })?;
            out.push(Entry { path: self.path.into(), line, key: setting.key, value });
        }
        Ok(())
    }

    fn unknown(&self, line: usize, key: String) -> SettingsError {
        let near = nearest(&key, SETTINGS.iter().map(|s| s.key), 1);
        let near = near.first().map_or(String::new(), |n| format!(", did you mean `{n}`?"));
        SettingsError::Unknown { path: self.path.into(), line, key, near }
    }
}

/// A value as text, or what it is instead.
fn scalar(item: &Item) -> Result<String, &'static str> {
    match item.as_value() {
        Some(Value::String(text)) => Ok(text.value().clone()),
        Some(Value::Integer(number)) => Ok(number.value().to_string()),
        Some(Value::Float(number)) => Ok(number.value().to_string()),
        Some(Value::Boolean(_)) => Err("true or false"),
        Some(Value::Datetime(_)) => Err("a date"),
        Some(Value::Array(_)) => Err("a list"),
        Some(Value::InlineTable(_)) | None => Err("a table"),
    }
}
