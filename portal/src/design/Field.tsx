import { ChevronDown } from "lucide-react";
import type { ReactNode } from "react";
import {
  Button as AriaButton,
  TextField as AriaTextField,
  type TextFieldProps as AriaTextFieldProps,
  FieldError,
  Input,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  Select,
  SelectValue,
  Text,
} from "react-aria-components";

export interface TextFieldProps extends Omit<AriaTextFieldProps, "children" | "className"> {
  label: string;
  hint?: ReactNode;
  /** Error message of the API about this field. */
  error?: string;
  placeholder?: string;
}

export function TextField({ label, hint, error, placeholder, ...rest }: TextFieldProps) {
  return (
    <AriaTextField {...rest} className="field" isInvalid={error ? true : undefined}>
      <Label>{label}</Label>
      <Input className="input" placeholder={placeholder} />
      {hint && !error ? (
        <Text slot="description" className="hint">
          {hint}
        </Text>
      ) : null}
      <FieldError className="field-error">{error}</FieldError>
    </AriaTextField>
  );
}

export interface SelectFieldProps<K extends string> {
  label: string;
  value: K;
  options: readonly { id: K; label: string }[];
  onChange: (value: K) => void;
  hideLabel?: boolean;
}

export function SelectField<K extends string>({
  label,
  value,
  options,
  onChange,
  hideLabel,
}: SelectFieldProps<K>) {
  return (
    <Select
      className="field"
      aria-label={hideLabel ? label : undefined}
      selectedKey={value}
      onSelectionChange={(key) => onChange(key as K)}
    >
      {hideLabel ? null : <Label>{label}</Label>}
      <AriaButton className="button">
        <SelectValue />
        <ChevronDown aria-hidden />
      </AriaButton>
      <Popover className="popover">
        <ListBox items={options}>
          {(option) => (
            <ListBoxItem className="option" id={option.id} textValue={option.label}>
              {option.label}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </Select>
  );
}
