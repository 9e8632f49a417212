// dom.js - the three things that every other file needs of the document.

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

/** Tell those who cannot see it. */
export function announce(text) {
  $("status").textContent = text;
}
