"use strict";
// Sign-in with passkeys. The forms on the page work without this script.
for (const button of document.querySelectorAll("button[data-passkey]")) {
  const section = button.closest("section");
  const wrong = section.querySelector("[role=alert]");
  if (!window.PublicKeyCredential) {
    // On a page without a challenge, the person can use the password form.
    if (!button.dataset.passkey) continue;
    wrong.textContent = "This browser does not support passkeys. Use another browser.";
    section.hidden = wrong.hidden = false;
    button.remove();
    continue;
  }
  section.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    wrong.hidden = true;
    try {
      await signIn(button.dataset.passkey);
      location.assign("/");
    } catch (error) {
      wrong.textContent = error instanceof Refused ? error.message : "No passkey was used. Try again.";
      wrong.hidden = false;
      button.disabled = false;
    }
  });
}

class Refused extends Error {}

/** `challenge` belongs to a sign-in whose password was correct; "" to sign in with the passkey only. */
async function signIn(challenge) {
  const asked = await post("/v1/sign-in/passkey/options", challenge ? {challenge} : {});
  const credential = await navigator.credentials.get({publicKey: read(asked.options)});
  await post("/v1/sign-in/passkey", {challenge: asked.challenge, credential: written(credential)});
}

// Older browsers support passkeys, but not the functions for these conversions (WebAuthn level 3, 5.1.9 and 5.1.10).
function read(options) {
  const allowed = (options.allowCredentials ?? []).map((each) => ({...each, id: octets(each.id)}));
  return {...options, challenge: octets(options.challenge), allowCredentials: allowed};
}

function written({id, type, rawId, response, authenticatorAttachment}) {
  const {authenticatorData, clientDataJSON, signature, userHandle} = response;
  const shown = {authenticatorData, clientDataJSON, signature, ...(userHandle ? {userHandle} : {})};
  const texts = Object.entries(shown).map(([name, value]) => [name, text(value)]);
  const attachment = authenticatorAttachment ?? undefined;
  return {
    id, type, rawId: text(rawId), response: Object.fromEntries(texts),
    authenticatorAttachment: attachment, clientExtensionResults: {},
  };
}

function octets(base64url) {
  const base64 = base64url.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

function text(buffer) {
  const base64 = btoa(String.fromCharCode(...new Uint8Array(buffer)));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function post(path, body) {
  const headers = {"Content-Type": "application/json"};
  const answer = await fetch(path, {method: "POST", headers, body: JSON.stringify(body)});
  const found = await answer.json();
  if (!answer.ok) throw new Refused([found.detail, found.remedy].filter(Boolean).join(" "));
  return found;
}
