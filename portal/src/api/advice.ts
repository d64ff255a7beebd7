// A step is an operation of the API, with parameters in parentheses.
const STEP = String.raw`[a-z]+[A-Z]\w*(?: \([^)]*\))?`;
const STEPS = new RegExp(`: ${STEP}(?:, ${STEP})*(\\.?)$`);

/** The advice without the API operations that it ends with. The portal has buttons instead. */
export function withoutSteps(advice: string): string {
  return advice.replace(STEPS, "$1");
}
