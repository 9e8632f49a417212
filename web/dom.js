// dom.js - the three functions on the document that every other file needs.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children; text is text, never markup. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Announce to screen readers. */
export function announce(text) {
  $("status").textContent = text;
}
