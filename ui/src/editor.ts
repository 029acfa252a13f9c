/**
 * The editor of expressions: colours, completion of names, labels and values from the server, mistakes underlined while
 * they are written. It comes when it is opened first, and not before: it is larger than the rest of the page.
 */

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { PromQLExtension } from "@prometheus-io/codemirror-promql";

/** Colours are those of the page, in both themes. */
const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--accent)" },
  { tag: [tags.function(tags.variableName), tags.standard(tags.variableName)], color: "var(--q-p50)" },
  { tag: [tags.string], color: "var(--q-p90)" },
  { tag: [tags.number, tags.integer, tags.float], color: "var(--q-p999)" },
  { tag: tags.labelName, color: "var(--muted)" },
  { tag: tags.invalid, color: "var(--danger, #e5484d)" },
]);

const LOOK = EditorView.theme({
  "&": { backgroundColor: "transparent", color: "inherit", fontSize: "13px" },
  ".cm-content": { fontFamily: "var(--font-code)", caretColor: "currentColor", minHeight: "44px" },
  ".cm-cursor": { borderLeftColor: "currentColor" },
  "&.cm-focused": { outline: "none" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "8px" },
});

export class Editor {
  private readonly view: EditorView;

  constructor(parent: HTMLElement, text: string, run: (query: string) => void, close: () => void) {
    const promql = new PromQLExtension().setComplete({ remote: { url: new URL(".", document.baseURI).toString().replace(/\/$/, ""), httpMethod: "GET" } });
    const keys = Prec.highest(
      keymap.of([
        { key: "Mod-Enter", run: (view) => (run(view.state.doc.toString()), true) },
        { key: "Escape", run: (view) => view.dom.querySelector(".cm-tooltip") === null && (close(), true) },
      ]),
    );
    const base = [keys, history(), bracketMatching(), closeBrackets(), autocompletion(), syntaxHighlighting(COLOURS), LOOK, EditorView.lineWrapping];
    const maps = keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]);
    const label = EditorView.contentAttributes.of({ "aria-label": "PromQL expression, several lines" });
    this.view = new EditorView({ parent, state: EditorState.create({ doc: text, extensions: [...base, maps, label, placeholder("PromQL; Ctrl+Enter runs it"), promql.asExtension()] }) });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  /** Puts another expression in, unless it is there. */
  show(text: string): void {
    if (text !== this.text) this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  focus(): void {
    this.view.focus();
  }

  /** Underlines what the server refused; nothing where it says no place. */
  refuse(message: string | null, place: { from: number; to: number } | null): void {
    const length = this.view.state.doc.length;
    const at = place === null ? [] : [{ from: Math.min(place.from, length), to: Math.min(Math.max(place.to, place.from + 1), length), severity: "error" as const, message: message ?? "" }];
    this.view.dispatch(setDiagnostics(this.view.state, message === null ? [] : at));
  }
}
