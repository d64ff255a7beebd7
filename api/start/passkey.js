"use strict";
// Passkeys on the pages of signing in. The forms beside them work without it.
for (const button of document.querySelectorAll("button[data-passkey]")) {
  const section = button.closest("section");
  const wrong = section.querySelector("[role=alert]");
  if (!window.PublicKeyCredential) {
    // Nothing is missed where a password does as well.
    if (!button.dataset.passkey) continue;
    wrong.textContent = "This browser shows no passkeys here. Use another one.";
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
      wrong.textContent = error instanceof Refused ? error.message : "No passkey was shown. Try again.";
      wrong.hidden = false;
      button.disabled = false;
    }
  });
}

class Refused extends Error {}

/** `challenge` is of a sign-in whose password was right; "" where the passkey is all there is. */
async function signIn(challenge) {
  const asked = await post("/v1/sign-in/passkey/options", challenge ? {challenge} : {});
  const credential = await navigator.credentials.get({publicKey: read(asked.options)});
  await post("/v1/sign-in/passkey", {challenge: asked.challenge, credential: written(credential)});
}

// WebAuthn level 3, 5.1.9 and 5.1.10: browsers had passkeys for years before they had functions for these.
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
