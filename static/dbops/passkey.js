// Connect the buttons of passkeys with django-allauth's script. A form names what it does in data-passkey.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll("form[data-passkey]")) {
    const ids = { credential: form.querySelector("input[name=credential]").id, data: "passkey-data" };
    const button = form.querySelector("button[data-passkey-button]").id;
    const passwordless = form.querySelector("input[name=passwordless]");
    const kind = form.dataset.passkey;
    const key = { addForm: "add", authenticateForm: "authenticate", loginForm: "login" }[kind];
    window.allauth.webauthn.forms[kind]({ ids: { ...ids, [key]: button, passwordless: passwordless && passwordless.id } });
  }
});

document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  for (const text of document.querySelectorAll("[data-passkey-error]")) text.hidden = false;
});
