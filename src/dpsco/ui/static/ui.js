// The slider and the field beside it hold one number; the slider's stops are not evenly spaced.
"use strict";

function stops(slider) {
  return slider.dataset.values.split(" ").map(Number);
}

function nearest(values, number) {
  const distance = value => Math.abs(Math.log(value) - Math.log(number));
  return values.reduce((best, value, k) => (distance(value) < distance(values[best]) ? k : best), 0);
}

document.addEventListener("input", event => {
  const slider = document.querySelector("input[type=range][data-values]");
  if (!slider) return;
  const field = document.getElementById(slider.dataset.field);
  if (event.target === slider) {
    field.value = String(stops(slider)[Number(slider.value)]);
  } else if (event.target === field && Number(field.value) > 0) {
    slider.value = String(nearest(stops(slider), Number(field.value)));
  }
  slider.setAttribute("aria-valuetext", field.value);
});

// A form is sent once: a second click while the first is on its way does nothing.
document.addEventListener("submit", event => {
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-sent]").forEach(form => delete form.dataset.sent);
});

// What went wrong is read first, and goes once numbers of what is typed now are there.
document.addEventListener("DOMContentLoaded", () => document.getElementById("problem")?.focus());
document.addEventListener("htmx:afterSwap", event => {
  if (event.target.id === "numbers") document.getElementById("problem")?.remove();
});
