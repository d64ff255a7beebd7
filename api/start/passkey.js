"use strict";
// Passkeys on the pages of signing in. The forms beside them work without it.
for (const button of document.querySelectorAll("button[data-passkey]")) {
  if (!window.PublicKeyCredential?.parseRequestOptionsFromJSON) continue;
  const section = button.closest("section");
  const wrong = section.querySelector("[role=alert]");
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
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(asked.options);
  const credential = await navigator.credentials.get({publicKey});
  await post("/v1/sign-in/passkey", {challenge: asked.challenge, credential: credential.toJSON()});
}

async function post(path, body) {
  const headers = {"Content-Type": "application/json"};
  const answer = await fetch(path, {method: "POST", headers, body: JSON.stringify(body)});
  const found = await answer.json();
  if (!answer.ok) throw new Refused([found.detail, found.remedy].filter(Boolean).join(" "));
  return found;
}
