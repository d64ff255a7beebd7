import { Search } from "lucide-react";
import { useEffect, useState } from "react";

const TYPING_MILLISECONDS = 300;
const MAX_CHARACTERS = 200;

export interface SearchBoxProps {
  label: string;
  /** Shown instead of the label while the box is empty. */
  placeholder?: string;
  value: string;
  onChange: (value: string) => void;
  hasIcon?: boolean;
}

export function SearchBox({ label, placeholder = label, value, onChange, hasIcon = true }: SearchBoxProps) {
  return (
    <div className={hasIcon ? "with-icon" : ""}>
      {hasIcon ? <Search aria-hidden /> : null}
      <input
        type="search"
        className="input"
        aria-label={label}
        placeholder={placeholder}
        value={value}
        maxLength={MAX_CHARACTERS}
        onChange={(event) => onChange(event.target.value)}
      />
    </div>
  );
}

/** A search box that reports its text when the person stops typing. */
export function TextFilter({ value, onChange, ...rest }: SearchBoxProps) {
  const [text, setText] = useState(value);
  const [applied, setApplied] = useState(value);
  if (value !== applied) {
    setApplied(value);
    setText(value);
  }
  useEffect(() => {
    if (text === applied) return undefined;
    const timer = setTimeout(() => {
      setApplied(text);
      onChange(text);
    }, TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [text, applied, onChange]);
  return <SearchBox {...rest} value={text} onChange={setText} />;
}
